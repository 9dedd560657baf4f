"""EnvPool's environments as BatchedEnvs: all copies in lockstep, or whichever are ready."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Unfinished
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, leaf_spaces, take
from rlcore.env import DEFAULT_GROUP, BatchedEnv, Spaces, StepBatch
from rlcore.errors import EnvError
from rlcore_batched.actions import checked_actions
from rlcore_batched.envpool_reading import Reading
from rlcore_batched.values import ValueCheck, called

#: Makes a pool with a seed for each copy.
MakePool = Callable[[Sequence[int]], Any]

_NOT_RESET = "reset() has to come first"


class EnvPoolEnv(BatchedEnv):
    """What both modes share.

    EnvPool answers the action after an ending with the next episode's first observation; that action is ignored. Here
    the row that ends waits for no action, and the row with the first observation tells of no transition.

    EnvPool has no state that could be saved, and takes seeds when a pool is made: every ``reset`` makes a new one.
    """

    #: How many copies one ``recv`` of the pool gives.
    _batch: int

    def __init__(self, make: MakePool, spaces: Spaces, num_slots: int, name: str, reading: Reading) -> None:
        self.groups = {DEFAULT_GROUP: spaces}
        self.num_slots = num_slots
        self.name = name
        self._make = make
        self._reading = reading
        self._check = ValueCheck(name, leaf_spaces(spaces[0]))
        self._pool: Any = None
        self._every = np.arange(num_slots, dtype=np.int32)
        self._idle = _idle(spaces[1], num_slots)
        self._receiver: ThreadPoolExecutor | None = None
        self._receiving: Future[Any] | None = None

    def reset(self, seed: int | None) -> None:
        self.close()
        self._pool = self._make(self._reading.seeds(seed, self.num_slots))
        #: By slot: the step of its episode, whether one runs, and whether its row waits for an action.
        self._t = np.zeros(self.num_slots, np.int64)
        self._running = np.zeros(self.num_slots, np.bool_)
        self._waiting = np.zeros(self.num_slots, np.bool_)
        self._lives = np.zeros(self.num_slots, np.int64)
        #: How many copies the pool has to give back.
        self._flying = self.num_slots
        self._pool.async_reset()

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._pool is None:
            raise RuntimeError(f"{self.name}: {_NOT_RESET}")
        self._go_on()
        if self._flying < self._batch:
            raise TimeoutError(
                f"{self.name}: {int(self._waiting.sum())} slots wait for actions, and only {self._flying} are under "
                f"way, of which {self._batch} are handed over together"
            )
        return {DEFAULT_GROUP: self._rows(self._receive(timeout))}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._pool is None:
            raise ValueError(f"{self.name}: {_NOT_RESET}")
        if actions.keys() != {DEFAULT_GROUP}:
            raise ValueError(f"{self.name}: actions for {list(actions)}; there is one group, '{DEFAULT_GROUP}'")
        slots, chosen = actions[DEFAULT_GROUP]
        slots = np.asarray(slots)
        expected = self._expected(slots)
        checked = checked_actions(chosen, len(slots), expected, self.groups[DEFAULT_GROUP][1], self.name)
        known = (slots >= 0) & (slots < self.num_slots)
        if not known.all() or not self._waiting[slots].all() or len(np.unique(slots)) < len(slots):
            shown = slots.tolist() if len(slots) <= 8 else f"{slots[:8].tolist()} and more"
            raise ValueError(f"{self.name}: actions for slots {shown}, not all of which wait for one, each for one")
        self._waiting[slots] = False
        self._launch(slots, checked)

    @abstractmethod
    def _go_on(self) -> None:
        """Sends what needs nobody's decision, before something is received."""

    @abstractmethod
    def _expected(self, slots: NDArray[Any]) -> int:
        """How many actions have to come at once."""

    @abstractmethod
    def _launch(self, slots: NDArray[Any], actions: NDArray[Any]) -> None:
        """Sends checked actions to the pool."""

    def _send(self, slots: NDArray[Any], actions: NDArray[Any]) -> None:
        self._pool.send(actions, slots.astype(np.int32))
        self._flying += len(slots)

    def _receive(self, timeout: float | None) -> Any:
        """The pool's next answer; one that was waited for in vain is had by the next call."""
        if self._receiving is None and timeout is None:
            return self._recv()
        if self._receiving is None:
            if self._receiver is None:
                self._receiver = ThreadPoolExecutor(1, "envpool")
            self._receiving = self._receiver.submit(self._recv)
        try:
            received = self._receiving.result(timeout)
        except Unfinished:
            raise TimeoutError(f"{self.name}: nothing was ready within {timeout} s") from None
        self._receiving = None
        return received

    def _recv(self) -> Any:
        return called(self.name, "recv() of the pool", self._pool.recv)

    def _rows(self, received: Any) -> StepBatch:
        if not isinstance(received, tuple) or len(received) != 5:
            raise EnvError(f"{self.name}: the pool gave a {type(received).__name__} instead of five values")
        seen, given, ended_for_good, cut, info = received
        slots = np.asarray(info["env_id"], np.int64)
        n, stepped = len(slots), self._running[slots]
        ages = np.where(stepped, self._t[slots] + 1, 0)
        obs = self._check.observations(self._reading.observations(seen, ages), n)
        reward = self._check.rewards(given, (n,), slots, ages)
        # A step that only resets is no transition.
        reward[~stepped] = 0.0
        terminated = self._check.flags(ended_for_good, n, "terminated") & stepped
        truncated = self._check.flags(cut, n, "truncated") & stepped
        over = terminated | truncated
        lost = self._lost_lives(slots, info, stepped & ~over)
        ended = over | lost
        final = take(obs, ended)
        if lost.any():
            ages = np.where(lost, 0, ages)
            obs = self._check.observations(self._reading.observations(seen, ages), n)
        self._t[slots] = ages
        self._running[slots] = self._waiting[slots] = ~over
        self._flying -= n
        return StepBatch(
            slot=slots,
            agent_id=np.zeros(n, np.int64),
            reward=reward,
            terminated=terminated | lost,
            truncated=truncated,
            final_obs=final,
            obs=obs,
            first=~stepped | lost,
            needs_action=~over,
            env_step=ages,
            episode_over=ended,
        )

    def _lost_lives(
        self, slots: NDArray[np.int64], info: Mapping[str, Any], going_on: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which rows have lost a life of a game that goes on: their next episode opens where the last one ends."""
        lives = self._reading.lives(info)
        if lives is None:
            return np.zeros(len(slots), np.bool_)
        before = self._lives[slots]
        self._lives[slots] = lives
        lost: NDArray[np.bool_] = going_on & (lives > 0) & (lives < before)
        return lost

    def get_state(self) -> dict[str, Any] | None:
        return None

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """All episodes begin anew."""
        self.reset(None)
        return list(range(self.num_slots))

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.shutdown(wait=False)
        self._receiver = self._receiving = None
        pool, self._pool = self._pool, None
        if pool is not None and hasattr(pool, "close"):
            pool.close()


class LockstepEnvPool(EnvPoolEnv):
    """The synchronous mode: all copies in order, in every poll."""

    lockstep = True

    def __init__(self, make: MakePool, spaces: Spaces, num_slots: int, name: str, reading: Reading) -> None:
        super().__init__(make, spaces, num_slots, name, reading)
        self._batch = num_slots

    def _go_on(self) -> None:
        if not self._flying and not self._waiting.any():
            # Slots that only have to be reset wait for nobody.
            self._send(self._every, self._idle)

    def _expected(self, slots: NDArray[Any]) -> int:
        return int(self._waiting.sum())

    def _launch(self, slots: NDArray[Any], actions: NDArray[Any]) -> None:
        full = self._idle.copy()
        full[slots] = actions
        self._send(self._every, full)


class ReadyEnvPool(EnvPoolEnv):
    """The asynchronous mode: the ``batch`` copies that are ready first."""

    def __init__(
        self, make: MakePool, spaces: Spaces, num_slots: int, name: str, reading: Reading, batch: int
    ) -> None:
        super().__init__(make, spaces, num_slots, name, reading)
        self._batch = batch

    def reset(self, seed: int | None) -> None:
        super().reset(seed)
        self._over = np.zeros(0, np.int64)

    def _rows(self, received: Any) -> StepBatch:
        step = super()._rows(received)
        self._over = np.append(self._over, step.slot[~step.needs_action])
        return step

    def _go_on(self) -> None:
        over, self._over = self._over, self._over[:0]
        if len(over):
            self._send(over, self._idle[over])

    def _expected(self, slots: NDArray[Any]) -> int:
        return len(slots)

    def _launch(self, slots: NDArray[Any], actions: NDArray[Any]) -> None:
        self._send(slots, actions)


def _idle(space: gymnasium.Space[Any], count: int) -> NDArray[Any]:
    """``count`` times an action that is ignored."""
    one = np.zeros(space.shape or (), space.dtype)
    if isinstance(space, gymnasium.spaces.Box):
        one = np.clip(one, space.low, space.high).astype(space.dtype)
    return np.broadcast_to(one, (count, *one.shape)).copy()

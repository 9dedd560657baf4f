"""Copies of an environment that step one after the other and are reset in the step that ends them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, map_columns, take
from rlcore.env import Spaces
from rlcore.errors import BadValueError, EnvError
from rlcore.restarts import Restarts
from rlcore_gym.actions import ActionReader
from rlcore_gym.board import Board
from rlcore_gym.failures import FAILURES, OLD_GYM, Misfit, close, raised
from rlcore_gym.generators import Generators
from rlcore_gym.observations import ObservationRows
from rlcore_gym.replay import ActionLog, leaves
from rlcore_gym.seeds import Draws, Follow, draws, following_seed
from rlcore_gym.slot import Slot, short
from rlcore_gym.spaces import check_alike, too_large
from rlcore_gym.stepping import BOOLEANS, NEVER, Env, Step, boolean, check_distinct, share_memory

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Rules:
    """How copies run.

    ``time_limit`` is in steps; ``restarts``: an environment that raises begins anew; ``seed`` gives the seed that is
    used in place of another one.
    """

    time_limit: int | None = None
    restarts: bool = False
    seed: Callable[[int], int] = int


#: The rules where nothing is said.
PLAIN_RULES = Rules()


class Copies:
    """``envs`` as the slots ``first``, ``first + 1`` ... of the environment ``name``; what they answer is on ``board``.

    Of Python it spends on a copy one loop turn; all else is a constant number of calls per step of all copies. An outer
    ``TimeLimit`` and ``OrderEnforcing`` are not called but counted for all copies at once, with the same result.
    ``build`` makes another copy, where one begins anew. With ``watched`` the board tells at any time which slot is
    being called.

    Raises ``SpaceError`` for spaces that differ from ``spaces``, ``EnvError`` where two copies are the same object, and
    where an environment raises or returns what it must not.
    """

    def __init__(
        self,
        envs: Sequence[Env],
        name: str,
        spaces: Spaces,
        board: Board,
        rules: Rules,
        build: Callable[[], Env],
        *,
        first: int = 0,
        watched: bool = False,
    ) -> None:
        for slot, env in enumerate(envs):
            check_alike(spaces, (env.observation_space, env.action_space), name, first + slot)
        check_distinct(envs, name, first)
        self.name = name
        self._spaces = spaces
        self.first = first
        self._rules = rules
        self._build = build
        self._watched = watched
        self.slots = [Slot(env, self._wheres(slot)) for slot, env in enumerate(envs)]
        self._every = np.arange(len(envs))
        self.reader = ActionReader(spaces[1], name)
        self.log = ActionLog(spaces, len(envs))
        self._restarts = Restarts(len(envs))
        self._events: list[str] = []
        #: The slots that rest, and those that step: as numbers, and as what picks their rows.
        self._resting, self._stepping = _NONE, list(range(len(envs)))
        self._rows: Any = slice(None)
        self._choose_lists()
        self._limits = np.array([self._limit(slot) for slot in self.slots], np.int64)
        self._until_limit = 0
        self._ones = np.ones(len(envs), np.float32)
        #: Whether flags are set that the next step has to clear.
        self._flagged = True
        #: The last rewards of episodes that were restored and have not gone on yet.
        self._arrived: NDArray[np.float32] | None = None
        self.bind(board)

    def bind(self, board: Board) -> None:
        """Answers on ``board`` from now on."""
        self.board = board
        self.rows = ObservationRows(self._spaces[0], board.obs)
        self._calls, self._calling = memoryview(board.calls.data), memoryview(board.calling.data)

    def _limit(self, slot: Slot) -> int:
        return min(slot.limit, self._rules.time_limit or NEVER)

    def _wheres(self, slot: int) -> Callable[[], str]:
        return lambda: self.where(slot)

    def where(self, slot: int) -> str:
        """Which slot of which environment, and at which step of its episode."""
        return f"{self.name}, slot {self.first + slot}, step {self.board.env_step[slot]}"

    def note(self, event: str) -> None:
        """Something that whoever runs the environments has to know."""
        self._events.append(event)

    def take_events(self) -> list[str]:
        """What has been noted since the last call, a line or more for each."""
        events, self._events = self._events, []
        return events

    # -- beginning

    def open(self, seeds: Sequence[int]) -> None:
        """Opens an episode in every slot, from its seed."""
        self._open_with(self.open_slot, seeds)

    def open_watched(self, seeds: Sequence[int]) -> list[Draws]:
        """The same; which random numbers each slot drew, which takes a while to find out."""
        drawn = []

        def open_slot(slot: int, seed: int) -> None:
            before = Generators(self.slots[slot].env).snapshots()
            self.open_slot(slot, seed)
            drawn.append(draws(before, self.slots[slot].drawn()))

        self._open_with(open_slot, seeds)
        return drawn

    def _open_with(self, open_slot: Callable[[int, int], None], seeds: Sequence[int]) -> None:
        self.board.env_step[:] = 0
        for slot, seed in enumerate(seeds):
            open_slot(slot, seed)
        self.log.begin(self._every)
        self.begun()

    def begun(self, arrived: NDArray[np.float32] | None = None) -> None:
        """The slots stand where the columns ``obs`` and ``env_step`` say, and nothing is told of what led there.

        ``arrived`` are the rewards that they arrived there with.
        """
        board = self.board
        self._arrived = arrived
        board.reward[:] = 0.0
        for flags in (board.terminated, board.truncated, board.over):
            flags[:] = False
        np.equal(board.env_step, 0, out=board.first)
        self._flagged = True
        self._until_limit = self._distance_to_limit()
        self._resting, self._stepping, self._rows = _NONE, list(range(len(self.slots))), slice(None)
        self._choose_lists()

    @property
    def last_rewards(self) -> NDArray[np.float32]:
        """The reward of the last step of each slot's episode, of a restored one too, which does not hand it out."""
        return self.board.reward if self._arrived is None else self._arrived

    def _choose_lists(self) -> None:
        """The first step copies each observation at once; it shows whether that has to go on."""
        #: Whether the next step tells if copies return one array for all of them.
        self._watching = True
        self._bare_steps = [slot.bare_step for slot in self.slots]
        self._copying_steps = [slot.copying_step for slot in self.slots]
        self._use(self._copying_steps)

    def _use(self, steps: Sequence[Step]) -> None:
        self._all_steps = steps
        self.steps: Sequence[Step] = [steps[slot] for slot in self._stepping]

    def _choose_steps(self) -> None:
        self._watching = False
        stepped = [step.seen for step in self._copying_steps]
        if not share_memory([slot.first_observed for slot in self.slots]) and not share_memory(stepped):
            self._use(self._bare_steps)

    def open_slot(self, slot: int, seed: int) -> None:
        """Opens an episode in one slot and shows its first observation."""
        try:
            self.show_slot(slot, self.called(slot, lambda: self.slots[slot].open(self._rules.seed(seed))))
        except EnvError as error:
            self._begin_anew(slot, error)

    def called(self, slot: int, call: Callable[[], Any]) -> Any:
        """What a call of one environment gives; the board tells that it is under way."""
        self._calling[0] = self.first + slot
        try:
            return call()
        finally:
            self._calling[0] = -1
            self._calls[0] += 1

    def show_slot(self, slot: int, obs: Any) -> None:
        """Writes down what reset returned."""
        try:
            self.rows.write_row(slot, obs)
        except Misfit as misfit:
            raise BadValueError(f"{self.where(slot)}: reset() returned a bad value: {misfit.problem}") from None

    def _begin_anew(self, slot: int, error: EnvError) -> Any:
        """Builds the copy of a slot that failed, and opens an episode in it: its first observation, which is shown.

        Raises the error where nothing may begin anew, or where that was in vain too often.
        """
        if not self._rules.restarts:
            raise error
        while True:
            self._restarts.note([slot], error)
            self.note(f"{error}\nthe slot begins anew")
            try:
                return self._rebuilt(slot, self._rules.seed(following_seed(self.slots[slot].seed, Follow.RESTART)))
            except EnvError as again:
                error = again

    def _rebuilt(self, slot: int, seed: int) -> Any:
        """Another copy in the place of one that failed: the first observation of an episode opened by ``seed``."""
        self.board.env_step[slot] = 0
        try:
            self.slots[slot].close()
        except FAILURES as error:  # what is broken may fail to close as well
            self.note(str(raised(self.where(slot), "close()", error)))
        env = self._build()
        check_alike(self._spaces, (env.observation_space, env.action_space), self.name, self.first + slot)
        self.slots[slot] = Slot(env, self._wheres(slot))
        self.slots[slot].seed = seed
        self._limits[slot] = self._limit(self.slots[slot])
        self._choose_lists()
        obs = self.called(slot, lambda: self.slots[slot].open(seed))
        self.show_slot(slot, obs)
        return obs

    def rest(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Steps no more, until all are opened or restored, those of ``slots`` whose episodes have just begun: which.

        So their states are those of episodes without any step.
        """
        resting = np.asarray(slots[self.board.env_step[slots] == 0], np.int64)
        if len(resting):
            self._resting = np.union1d(self._resting, resting)
            self._rows = np.setdiff1d(self._every, self._resting)
            self._stepping = self._rows.tolist()
            self._use(self._all_steps)
        return resting

    # -- stepping

    def step_board(self) -> bool:
        """The same with the actions on the board."""
        return self.step(map_columns(np.array, self.board.actions))

    def step(self, actions: Columns) -> bool:
        """One step of all copies that do not rest with checked ``actions [slots, ...]``, which they may keep.

        Fills the board; whether an episode ended. A slot that began anew is ``first`` and not ``over``: its step did
        not happen.
        """
        board = self.board
        self._arrived = None
        self.log.append(actions)
        if len(self._resting):
            self.log.begin(self._resting)
            board.reward[self._resting] = 0.0
            actions = take(actions, self._rows)
        if not self._stepping:
            self._clear_flags()
            return False
        board.env_step[self._rows] += 1
        results, broken = self._call_all(self.reader.rows(actions))
        try:
            observations, rewards, terminated, truncated, _ = zip(*results, strict=True)
        except (TypeError, ValueError):
            raise self._bad_results(results) from None
        if self._watching and not broken:
            self._choose_steps()
        try:
            if len(self._resting):
                self.rows.write_some(self._rows, observations)
            else:
                self.rows.write(observations)
        except Misfit as misfit:
            raise BadValueError(f"{self.where(misfit.row)}: step() returned a bad value: {misfit.problem}") from None
        self._write_rewards(rewards)
        self._clear_flags()
        ended = self._write_flags(terminated, truncated)
        if len(ended):
            self._restart(ended)
        if broken:
            self._mark_begun(np.array(broken))
        if self._until_limit <= 0:
            self._until_limit = self._distance_to_limit()
        return len(ended) > 0

    def _clear_flags(self) -> None:
        if self._flagged:
            board = self.board
            for flags in (board.terminated, board.truncated, board.over, board.first):
                flags[:] = False
            self._flagged = False

    def _call_all(self, actions: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """What ``step`` of each copy returned, and the slots that failed and began anew instead."""
        results: list[Any] = []
        broken: list[int] = []
        while True:
            try:
                self._call_from(len(results), actions, results)
                return results, broken
            except FAILURES as cause:
                slot = self._stepping[len(results)]
                error = raised(self.where(slot), "step()", cause)
                error.__cause__ = cause
                results.append((self._begin_anew(slot, error), 0.0, False, False, {}))
                broken.append(slot)

    def _call_from(self, start: int, actions: Sequence[Any], results: list[Any]) -> None:
        append = results.append
        if not self._watched:
            for step, action in zip(self.steps[start:] if start else self.steps, actions[start:], strict=True):
                append(step(action))
            return
        calls, calling, first = self._calls, self._calling, self.first
        for slot, step, action in zip(self._stepping[start:], self.steps[start:], actions[start:], strict=True):
            calling[0] = first + slot
            append(step(action))
            calls[0] += 1
        calling[0] = -1

    def _bad_results(self, results: Sequence[Any]) -> EnvError:
        for slot, result in zip(self._stepping, results, strict=True):
            if not isinstance(result, tuple | list) or len(result) != 5:
                return BadValueError(f"{self.where(slot)}: step() returned {short(result)}: {OLD_GYM}")
        raise AssertionError("every result has five parts")

    def _write_rewards(self, rewards: Sequence[Any]) -> None:
        reward = self.board.reward
        try:
            with np.errstate(over="raise"):
                reward[self._rows] = rewards
        except (TypeError, ValueError, FloatingPointError, OverflowError):
            # Arrays of one number pass; the first that is no number, or too large a one, is named.
            reward[self._rows] = [self.number(*pair) for pair in zip(self._stepping, rewards, strict=True)]
        # The sum of what is finite is finite, but for numbers that no reward has; then each is looked at.
        if not math.isfinite(reward.dot(self._ones)):
            slot = int(np.flatnonzero(~np.isfinite(reward))[0])
            said = f"step() returned the reward {rewards[self._stepping.index(slot)]!r}"
            raise BadValueError(f"{self.where(slot)}: {said}")

    def number(self, slot: int, value: Any) -> float:
        """A reward as a number. ``EnvError`` where it is none."""
        try:
            number = float(np.asarray(value, np.float64).reshape(()))
        except (TypeError, ValueError, OverflowError):
            said = f"step() returned the reward {value!r}, which is no number"
            raise BadValueError(f"{self.where(slot)}: {said}") from None
        if too_large(number, self.board.reward.dtype) is not None:
            raise BadValueError(f"{self.where(slot)}: step() returned the reward {value!r}, too large for float32")
        return number

    def _write_flags(self, terminated: Sequence[Any], truncated: Sequence[Any]) -> NDArray[np.int64]:
        """Fills the flag columns; the slots whose episode is over."""
        terminated = self._booleans(terminated, "terminated")
        truncated = self._booleans(truncated, "truncated")
        self._until_limit -= 1
        if self._until_limit > 0 and not (any(terminated) or any(truncated)):
            return _NONE
        board = self.board
        board.terminated[self._rows] = terminated
        board.truncated[self._rows] = truncated
        if self._until_limit <= 0:
            board.truncated |= board.env_step >= self._limits
        np.logical_or(board.terminated, board.truncated, out=board.over)
        return np.flatnonzero(board.over)

    def _booleans(self, flags: Sequence[Any], name: str) -> Sequence[bool]:
        """The flags called ``name``. ``BadValueError`` for the first that is no boolean, nor an array of one."""
        if BOOLEANS.issuperset(map(type, flags)):
            return flags
        values = [boolean(flag) for flag in flags]
        if None in values:
            place = values.index(None)
            slot, said = self._stepping[place], f"step() returned {flags[place]!r} for {name}, which is no boolean"
            raise BadValueError(f"{self.where(slot)}: {said}")
        return [value is True for value in values]

    def _distance_to_limit(self) -> int:
        """In how many steps the first slot can reach its time limit."""
        return int((self._limits - self.board.env_step).min())

    def _restart(self, slots: NDArray[np.int64]) -> None:
        """Puts the last observations of ``slots`` away and resets them."""
        for final, obs in zip(leaves(self.board.final), leaves(self.board.obs), strict=True):
            final[slots] = obs[slots]
        self._mark_begun(slots)
        self._restarts.ended(slots.tolist())
        for slot in slots.tolist():
            self._next_episode(slot)

    def _mark_begun(self, slots: NDArray[np.int64]) -> None:
        self._flagged = True
        self.board.first[slots] = True
        self.board.env_step[slots] = 0
        self.log.begin(slots)

    def _next_episode(self, slot: int) -> None:
        try:
            self.show_slot(slot, self.called(slot, self.slots[slot].go_on))
        except EnvError as error:
            self._begin_anew(slot, error)

    # -- the rest

    def render(self, slot: int) -> Any:
        """What ``render`` of one copy gives, None where it has no render mode."""
        env = self.slots[slot].env
        if env.render_mode is None:
            return None
        try:
            return env.render()
        except FAILURES as error:
            raise raised(self.where(slot), "render()", error) from error

    def close(self) -> None:
        """Closes the copies; may be called twice."""
        wheres = [self.where(number) for number in range(len(self.slots))]
        slots, self.slots = self.slots, []
        for slot, where in zip(slots, wheres, strict=True):
            close(slot, where)

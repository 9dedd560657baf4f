"""Copies of a ``gymnasium.Env`` that step one after the other in this process, reset in the step that ends them."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, take
from rlcore.errors import EnvError
from rlcore_gym.failures import FAILURES, OLD_GYM, OLD_RESET, Misfit, raised
from rlcore_gym.generators import Generators, restore, same, seed_spaces
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.observations import ObservationRows
from rlcore_gym.recording import Recording, Take, equal_bits, record
from rlcore_gym.rendering import rgb
from rlcore_gym.replay import ActionLog
from rlcore_gym.seeds import check_streams, slot_seeds
from rlcore_gym.spaces import check_alike, check_spaces, too_large
from rlcore_gym.stepping import CopyingStep, Env, Step, bare_step, check_distinct, share_memory

LOGGER = logging.getLogger(__name__)

_NONE = np.zeros(0, np.int64)


class InProcessEnv(LockstepEnv):
    """``envs`` as one BatchedEnv, at little more than the cost of their own ``step``.

    Of Python it spends on a copy one loop turn; all else is a constant number of calls per step of all copies. An outer
    ``TimeLimit`` and ``OrderEnforcing`` are not called but counted for all copies at once, with the same result.

    Slot ``i`` is seeded with ``slot_seeds(seed, n)[i]`` by ``reset`` and goes on by itself from there. A state holds
    for each slot how its episode began and the actions since; see :class:`Recording`.

    Raises ``SpaceError`` for spaces that numpy columns cannot hold or that differ between copies, ``EnvError`` where
    two copies are the same object, and where an environment raises or returns what it must not.
    """

    def __init__(self, envs: Sequence[Env], name: str) -> None:
        spaces = check_spaces(envs[0].observation_space, envs[0].action_space, name)
        for slot, env in enumerate(envs):
            check_alike(spaces, (env.observation_space, env.action_space), name, slot)
        check_distinct(envs, name)
        # Copies, so that nobody who samples from them draws the environment's numbers.
        super().__init__(copy.deepcopy(spaces), len(envs), name)
        self._envs = list(envs)
        bare = [bare_step(env) for env in envs]
        self._bare_steps = [step for step, _ in bare]
        self._copying_steps = [CopyingStep(step) for step in self._bare_steps]
        self._steps: Sequence[Step] = self._copying_steps
        #: Whether the next step tells if copies return one array for all of them.
        self._watching = True
        self._limits = np.array([limit for _, limit in bare], np.int64)
        self._until_limit = 0
        self._rows = ObservationRows(spaces[0], len(envs))
        self._ones = np.ones(len(envs), np.float32)
        self._log = ActionLog(spaces, len(envs))
        self._seeds = [0] * len(envs)
        self._generators = [Generators(env) for env in envs]
        #: The states of the generators before the reset that opened the episode; None where the seed opened it.
        self._origins: list[dict[str, Any] | None] = [None] * len(envs)
        #: What reset returned last, kept for its address.
        self._first_observed: list[Any] = [None] * len(envs)
        #: Whether flags are set that the next step has to clear.
        self._flagged = True
        #: The last rewards of episodes that were restored and have not gone on yet.
        self._arrived: NDArray[np.float32] | None = None

    # -- beginning

    def _open(self, seed: int | None) -> None:
        before = [Generators(env).snapshots() for env in self._envs]
        self._seeds = slot_seeds(seed, self.num_slots)
        self._env_step[:] = 0
        for slot, own in enumerate(self._seeds):
            self._reset_seeded(slot, own)
        after = [generators.snapshots() for generators in self._generators]
        check_streams(self.name, before, after, self._rows.columns)
        self._origins = [None] * self.num_slots
        self._arrived = None
        self._log.begin(self._slot)
        self._flagged = True
        self._until_limit = self._distance_to_limit()
        self._watch()

    def _watch(self) -> None:
        """The first step copies each observation at once; it shows whether that has to go on."""
        self._watching = True
        self._steps = self._copying_steps

    def _choose_steps(self) -> None:
        self._watching = False
        stepped = [step.seen for step in self._copying_steps]
        if not share_memory(self._first_observed) and not share_memory(stepped):
            self._steps = self._bare_steps

    def _reset_seeded(self, slot: int, seed: int) -> None:
        idle = seed_spaces(self._envs[slot], seed)
        self._reset_slot(slot, seed)
        self._generators[slot] = Generators(self._envs[slot], idle)

    def _reset_slot(self, slot: int, seed: int | None) -> None:
        """Resets one copy and writes down its observation."""
        try:
            result: Any = self._envs[slot].reset() if seed is None else self._envs[slot].reset(seed=seed)
        except FAILURES as error:
            raise raised(self._where(slot), f"reset({'' if seed is None else 'seed=...'})", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise EnvError(f"{self._where(slot)}: reset() returned {_short(result)}: {OLD_RESET}")
        try:
            self._rows.write_row(slot, result[0])
        except Misfit as misfit:
            raise EnvError(f"{self._where(slot)}: reset() returned a bad value: {misfit.problem}") from None
        self._first_observed[slot] = result[0]

    def _where(self, slot: int) -> str:
        return f"{self.name}, slot {slot}, step {self._env_step[slot]}"

    # -- stepping

    def _observations(self) -> Columns:
        return self._rows.columns

    def _advance(self, actions: Columns) -> Columns:
        self._log.append(actions)
        self._arrived = None
        self._env_step += 1
        results: list[Any] = []
        append = results.append
        try:
            for step, action in zip(self._steps, self._reader.rows(actions), strict=True):
                append(step(action))
        except FAILURES as error:
            raise raised(self._where(len(results)), "step()", error) from error
        try:
            observations, rewards, terminated, truncated, _ = zip(*results, strict=True)
        except (TypeError, ValueError):
            raise self._bad_results(results) from None
        if self._watching:
            self._choose_steps()
        try:
            self._rows.write(observations)
        except Misfit as misfit:
            raise EnvError(f"{self._where(misfit.row)}: step() returned a bad value: {misfit.problem}") from None
        self._write_rewards(rewards)
        if self._flagged:
            for flags in (self._terminated, self._truncated, self._over, self._first):
                flags[:] = False
            self._flagged = False
        ended = self._write_flags(terminated, truncated)
        final = self._restart(ended) if len(ended) else self._no_final
        if self._until_limit <= 0:
            self._until_limit = self._distance_to_limit()
        return final

    def _bad_results(self, results: Sequence[Any]) -> EnvError:
        for slot, result in enumerate(results):
            if not isinstance(result, tuple | list) or len(result) != 5:
                return EnvError(f"{self._where(slot)}: step() returned {_short(result)}: {OLD_GYM}")
        raise AssertionError("every result has five parts")

    def _write_rewards(self, rewards: Sequence[Any]) -> None:
        reward = self._reward
        try:
            with np.errstate(over="raise"):
                reward[:] = rewards
        except (TypeError, ValueError, FloatingPointError, OverflowError):
            # Arrays of one number pass; the first that is no number, or too large a one, is named.
            reward[:] = [self._number(slot, value) for slot, value in enumerate(rewards)]
        # The sum of what is finite is finite, but for numbers that no reward has; then each is looked at.
        if not math.isfinite(reward.dot(self._ones)):
            for slot in np.flatnonzero(~np.isfinite(reward)).tolist():
                raise EnvError(f"{self._where(slot)}: step() returned the reward {rewards[slot]!r}")

    def _number(self, slot: int, value: Any) -> float:
        try:
            number = float(np.asarray(value, np.float64).reshape(()))
        except (TypeError, ValueError, OverflowError):
            raise EnvError(f"{self._where(slot)}: step() returned the reward {value!r}, which is no number") from None
        if too_large(number, self._reward.dtype) is not None:
            raise EnvError(f"{self._where(slot)}: step() returned the reward {value!r}, too large for float32")
        return number

    def _write_flags(self, terminated: Sequence[Any], truncated: Sequence[Any]) -> NDArray[np.int64]:
        """Fills the flag columns; the slots whose episode is over."""
        self._until_limit -= 1
        if self._until_limit > 0 and not (_any(terminated) or _any(truncated)):
            return _NONE
        try:
            self._terminated[:] = terminated
            self._truncated[:] = truncated
        except (TypeError, ValueError):
            self._terminated[:] = [self._flag(slot, flag) for slot, flag in enumerate(terminated)]
            self._truncated[:] = [self._flag(slot, flag) for slot, flag in enumerate(truncated)]
        if self._until_limit <= 0:
            self._truncated |= self._env_step >= self._limits
        np.logical_or(self._terminated, self._truncated, out=self._over)
        return np.flatnonzero(self._over)

    def _flag(self, slot: int, value: Any) -> bool:
        if np.size(value) != 1:
            raise EnvError(f"{self._where(slot)}: step() returned {value!r} for terminated or truncated, not a bool")
        return bool(value)

    def _distance_to_limit(self) -> int:
        """In how many steps the first slot can reach its time limit."""
        return int((self._limits - self._env_step).min())

    def _restart(self, slots: NDArray[np.int64]) -> Columns:
        """Resets ``slots``; their last observations."""
        final = take(self._rows.columns, slots)
        self._flagged = True
        self._first[slots] = True
        self._env_step[slots] = 0
        self._log.begin(slots)
        for slot in slots.tolist():
            self._origins[slot] = self._generators[slot].states()
            self._reset_slot(slot, None)
        return final

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        if not self._savable():
            return None
        # What a restored episode arrived with is not handed out again, but is still the reward of its last step.
        rewards = self._reward if self._arrived is None else self._arrived
        takes = [
            Take(
                seed=self._seeds[slot],
                origin=self._origins[slot],
                actions=self._log.of(slot),
                reward=float(rewards[slot]) if self._env_step[slot] else 0.0,
                obs=take(self._rows.columns, slot),
                generators=Generators(self._envs[slot]).states(),
            )
            for slot in range(self.num_slots)
        ]
        return record(takes, self._log.nothing)

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Plays each slot's episode again; those that do not arrive where they were are reset and returned.

        Where there are fewer slots than the state has, its last ones are left out; where there are more, they start
        anew. ``CheckpointError`` for a tree that is no state of such environments.
        """
        self._phase = Phase.RESET
        recording = Recording(state)
        self._seeds = slot_seeds(recording.take(0).seed, self.num_slots)
        self._env_step[:] = 0
        restarted: list[int] = []
        actions: list[Columns] = []
        arrived = np.zeros_like(self._reward)
        for slot in range(self.num_slots):
            known = recording.take(slot) if slot < recording.num_slots else None
            if known is not None and self._play_back(slot, known):
                assert known.actions is not None
                actions.append(known.actions)
                arrived[slot] = known.reward
            else:
                self._start_anew(slot, known)
                actions.append(self._log.nothing)
                restarted.append(slot)
        self._log.replace(actions)
        self._arrived = arrived
        self._needs_action[:] = True
        np.equal(self._env_step, 0, out=self._first)
        self._flagged = True
        self._until_limit = self._distance_to_limit()
        self._watch()
        self._show()
        return restarted

    def _play_back(self, slot: int, known: Take) -> bool:
        """Whether the episode, begun and acted in as before, arrived where it was."""
        self._seeds[slot] = known.seed
        if known.actions is None:
            return False
        try:
            self._reset_seeded(slot, known.seed)
            if known.origin is not None:
                if not restore(self._envs[slot], known.origin):
                    return False
                self._reset_slot(slot, None)
            reward = self._act_again(slot, self._reader.rows(known.actions))
        except EnvError as error:
            LOGGER.warning("an episode could not be played again: %s", error)
            return False
        self._origins[slot] = known.origin
        return (
            reward == known.reward
            and equal_bits(take(self._rows.columns, slot), known.obs)
            and same(Generators(self._envs[slot]).states(), known.generators)
        )

    def _act_again(self, slot: int, actions: Sequence[Any]) -> float:
        """Takes ``actions``; the last reward. ``EnvError`` where the episode ends, which it did not before."""
        step, obs, reward = self._steps[slot], None, 0.0
        for action in actions:
            self._env_step[slot] += 1
            try:
                obs, reward, terminated, truncated, _ = step(action)
            except FAILURES as error:
                raise raised(self._where(slot), "step()", error) from error
            if terminated or truncated:
                raise EnvError(f"{self._where(slot)}: the episode ended, which it had not before")
        if actions:
            try:
                self._rows.write_row(slot, obs)
            except Misfit as misfit:
                raise EnvError(f"{self._where(slot)}: step() returned a bad value: {misfit.problem}") from None
        return float(np.float32(self._number(slot, reward)))

    def _start_anew(self, slot: int, known: Take | None) -> None:
        """A new episode, with the random numbers that would have come next where they are known."""
        self._env_step[slot] = 0
        self._reset_seeded(slot, self._seeds[slot])
        self._origins[slot] = None
        if known is not None and restore(self._envs[slot], known.generators):
            self._origins[slot] = self._generators[slot].states()
            self._reset_slot(slot, None)

    # -- the rest

    def render(self, slot: int) -> Array | None:
        env = self._envs[slot]
        if env.render_mode is None:
            return None
        try:
            return rgb(env.render())
        except FAILURES as error:
            raise raised(self._where(slot), "render()", error) from error

    def close(self) -> None:
        self._phase = Phase.RESET
        envs, self._envs = self._envs, []
        for env in envs:
            env.close()


def _any(flags: Sequence[Any]) -> bool:
    try:
        return any(flags)
    except ValueError:
        # Neither true nor false: looked at one by one, the culprit is named.
        return True


def _short(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{len(value)} values" if len(value) != 1 else "1 value"
    return f"a {type(value).__name__}"

"""A ``gymnasium.vector.VectorEnv`` of any autoreset mode as a BatchedEnv."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, empty_columns, from_table, map_columns, take, to_table
from rlcore.env import DEFAULT_GROUP
from rlcore.errors import BadValueError, CheckpointError, EnvError
from rlcore_gym.failures import FAILURES, OLD_GYM, OLD_RESET, Misfit, close, raised
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.observations import ObservationRows, batched_columns
from rlcore_gym.recording import equal_bits
from rlcore_gym.rendering import rgb
from rlcore_gym.seeds import slot_seeds
from rlcore_gym.snapshots import restore_snapshot, snapshot
from rlcore_gym.spaces import check_spaces

#: Names the kind of state, so that one of another kind is not taken for it.
SOURCE = "gymnasium.vector.VectorEnv"

Vector = VectorEnv[Any, Any, Any]


class VectorEnvAdapter(LockstepEnv):
    """``env`` in the terms of the one rule for endings, whatever ``env.metadata["autoreset_mode"]`` is.

    =========== =================================================================================================
    mode        a slot that ends
    =========== =================================================================================================
    NEXT_STEP   needs no action at its end; the vector environment is given one that it ignores, and the next
                poll hands over the new episode's observation as ``first``
    SAME_STEP   is ``first`` in the row that ends it; the final observation is taken from ``info["final_obs"]``
    DISABLED    as SAME_STEP, after a call of ``reset(options={"reset_mask": ...})``
    =========== =================================================================================================

    The vector environment's own arrays are handed out, not copied. ``get_state`` gives a snapshot for those vector
    environments of Gymnasium that can be copied exactly, None for others.

    Raises ``SpaceError`` for spaces that numpy columns cannot hold, ``EnvError`` where the mode is not stated, and
    where the environment raises or returns what it must not.
    """

    def __init__(self, env: Vector, name: str) -> None:
        spaces = check_spaces(env.single_observation_space, env.single_action_space, name)
        super().__init__(spaces, env.num_envs, name)
        self._env = env
        self._steps = 0
        self._obs: Columns = self._no_final
        modes: Mapping[AutoresetMode, Callable[[Columns, Mapping[str, Any]], Columns]] = {
            AutoresetMode.NEXT_STEP: self._ends_next_step,
            AutoresetMode.SAME_STEP: self._ends_same_step,
            AutoresetMode.DISABLED: self._ends_disabled,
        }
        self._mode = _autoreset_mode(env, name)
        self._end = modes[self._mode]

    def _open(self, seed: int | None) -> None:
        self._steps = 0
        self._obs = self._reset(self._seeds(seed), None)

    def _seeds(self, seed: int | None) -> Any:
        """A list for those known to take one; else one number, from which the environment derives its own."""
        own = slot_seeds(seed, self.num_slots)
        return own if isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv) else own[0]

    def _reset(self, seed: Any, options: dict[str, Any] | None) -> Columns:
        try:
            result: Any = self._env.reset(seed=seed, options=options)
        except FAILURES as error:
            raise raised(self._where(), "reset()", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise BadValueError(f"{self._where()}: reset() returned a {type(result).__name__}: {OLD_RESET}")
        return self._columns(result[0], "reset()")

    def _where(self) -> str:
        return f"{self.name}, {self.num_slots} copies in one, step {self._steps}"

    # -- stepping

    def _observations(self) -> Columns:
        return self._obs

    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        self._steps += 1
        try:
            result: Any = self._env.step(self._reader.batch(actions))
        except FAILURES as error:
            raise raised(self._where(), "step()", error) from error
        if not isinstance(result, tuple | list) or len(result) != 5:
            raise BadValueError(f"{self._where()}: step() did not return five values: {OLD_GYM}")
        returned, reward, terminated, truncated, info = result
        obs = self._columns(returned, "step()")
        moved = self._needs_action.copy()
        self._write_reward(reward, moved)
        self._board.terminated[:] = self._flags(terminated, "terminations") & moved
        self._board.truncated[:] = self._flags(truncated, "truncations") & moved
        np.logical_or(self._board.terminated, self._board.truncated, out=self._board.over)
        np.logical_not(moved, out=self._board.first)
        self._board.env_step += 1
        self._board.env_step[self._board.first] = 0
        self._needs_action[:] = True
        self._everyone = True
        self._obs = obs
        return self._end(obs, info) if self._board.over.any() else self._no_final

    def _write_reward(self, reward: Any, moved: NDArray[np.bool_]) -> None:
        try:
            given = np.asarray(reward).reshape(self.num_slots)
            # What is too large becomes infinite, and an error below.
            with np.errstate(over="ignore"):
                self._board.reward[:] = given
        except (TypeError, ValueError):
            said = f"step() returned rewards of shape {np.shape(reward)}, not {self.num_slots}"
            raise BadValueError(f"{self._where()}: {said}") from None
        self._board.reward[~moved] = 0.0
        if not np.isfinite(self._board.reward).all():
            slot = int(np.flatnonzero(~np.isfinite(self._board.reward))[0])
            excess = ", too large for float32" if np.isfinite(given[slot]) else ""
            raise BadValueError(f"{self._where()}: step() returned the reward {given[slot]} for slot {slot}{excess}")

    def _flags(self, flags: Any, what: str) -> NDArray[np.bool_]:
        array = np.asarray(flags)
        if array.shape != (self.num_slots,):
            said = f"step() returned {what} of shape {array.shape}, not ({self.num_slots},)"
            raise BadValueError(f"{self._where()}: {said}")
        if array.dtype != np.bool_:
            raise BadValueError(f"{self._where()}: step() returned {what} of type {array.dtype}, not bool")
        return array

    def _ends_next_step(self, obs: Columns, info: Mapping[str, Any]) -> Columns:
        np.logical_not(self._board.over, out=self._needs_action)
        self._everyone = False
        return take(obs, self._board.over)

    def _ends_same_step(self, obs: Columns, info: Mapping[str, Any]) -> Columns:
        self._start_over()
        final = info.get("final_obs", info.get("final_observation"))
        if final is None:
            raise BadValueError(
                f"{self._where()}: an episode ended, but info has no 'final_obs', as the autoreset mode SAME_STEP needs"
            )
        slots = np.flatnonzero(self._board.over)
        if not isinstance(final, np.ndarray) or final.dtype != object:
            return take(self._columns(final, "step()"), slots)
        space = self.groups[DEFAULT_GROUP][0]
        rows = ObservationRows(space, empty_columns(space, (len(slots),)))
        try:
            rows.write([final[slot] for slot in slots])
        except Misfit as misfit:
            problem = f"bad final_obs for slot {slots[misfit.row]}: {misfit.problem}"
            raise BadValueError(f"{self._where()}: step() returned a {problem}") from None
        return rows.columns

    def _ends_disabled(self, obs: Columns, info: Mapping[str, Any]) -> Columns:
        self._start_over()
        final = take(obs, self._board.over)
        going_on = take(obs, ~self._board.over)
        self._obs = self._reset(None, {"reset_mask": self._board.over.copy()})
        if not equal_bits(take(self._obs, ~self._board.over), going_on):
            ended = np.flatnonzero(self._board.over).tolist()
            raise BadValueError(
                f"{self._where()}: reset() with a reset_mask for slots {ended} changed the observations of others"
            )
        return final

    def _start_over(self) -> None:
        self._board.first |= self._board.over
        self._board.env_step[self._board.over] = 0

    def _columns(self, value: Any, call: str) -> Columns:
        """A batch of observations as flat columns, checked."""
        try:
            return batched_columns(self.groups[DEFAULT_GROUP][0], value, self.num_slots)
        except Misfit as misfit:
            raise BadValueError(f"{self._where()}: {call} returned a bad value: {misfit.problem}") from None

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        own = snapshot(self._env) if self._savable() else None
        if own is None:
            return None
        return {
            "source": SOURCE,
            "own": own,
            "obs": to_table("obs", map_columns(np.array, self._obs)),
            "env_step": self._board.env_step.copy(),
            "first": self._board.first.copy(),
            "needs_action": self._needs_action.copy(),
            "steps": self._steps,
        }

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Takes over the snapshot; where it is of another number of copies all of them are reset and returned.

        ``CheckpointError`` for a tree that is no state of such an environment.
        """
        self._phase = Phase.RESET
        try:
            if state["source"] != SOURCE:
                raise CheckpointError(f"the state of an environment is of a {state['source']}, not of a {SOURCE}")
            columns = {name: np.asarray(state[name]) for name in ("env_step", "first", "needs_action")}
            obs, steps, own = from_table("obs", state["obs"]), int(state["steps"]), state["own"]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the state of an environment is incomplete: {error!r}") from error
        if len(columns["env_step"]) != self.num_slots or not restore_snapshot(self._env, own):
            self.reset(None)
            return self._slot.tolist()
        self._obs, self._steps = obs, steps
        self._board.env_step[:], self._board.first[:] = columns["env_step"], columns["first"]
        self._needs_action[:] = columns["needs_action"]
        self._show()
        return []

    # -- the rest

    def render(self, slot: int) -> Array | None:
        if self._env.render_mode is None:
            return None
        try:
            frames = self._env.render()
        except FAILURES as error:
            raise raised(self._where(), "render()", error) from error
        return None if frames is None else rgb(frames[slot])

    def close(self) -> None:
        self._phase = Phase.RESET
        close(self._env, self.name)


def _autoreset_mode(env: Vector, name: str) -> AutoresetMode:
    stated = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(stated)
    except ValueError:
        modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
        said = "does not say what it does" if stated is None else f"says {stated!r} of what it does"
        raise EnvError(
            f"{name}: {type(env.unwrapped).__name__} {said} when an episode ends; "
            f"its metadata['autoreset_mode'] has to be one of {modes}"
        ) from None

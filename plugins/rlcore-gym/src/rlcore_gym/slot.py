"""One copy of an environment, and all that brings its running episode about again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlcore.errors import BadValueError
from rlcore_gym.failures import FAILURES, OLD_RESET, raised
from rlcore_gym.generators import Generators, Place, Snapshot, States, restore, seed_spaces
from rlcore_gym.simulators import restore_snapshot, snapshot
from rlcore_gym.stepping import CopyingStep, Env, Step, bare_step


class Slot:
    """``env`` with what opened its episode: the seed, or the states of the generators before the reset.

    ``where`` says which slot and step this is, for errors.
    """

    def __init__(self, env: Env, where: Callable[[], str]) -> None:
        self.env = env
        self.where = where
        self.bare_step: Step
        #: Steps after which an outer time limit, which is not called, ends an episode.
        self.bare_step, self.limit = bare_step(env)
        self.copying_step = CopyingStep(self.bare_step)
        self.seed = 0
        #: The states of the generators before the reset that opened the episode; None where the seed opened it.
        self.origin: States | None = None
        #: What reset returned last, kept for its address.
        self.first_observed: Any = None
        self._generators = Generators(env)

    def open(self, seed: int) -> Any:
        """Opens an episode that follows from ``seed``; its first observation."""
        idle = seed_spaces(self.env, seed)
        self.seed, self.origin = seed, None
        obs = self._reset(seed)
        self._generators = Generators(self.env, idle)
        return obs

    def go_on(self) -> Any:
        """Opens the next episode; its first observation."""
        self.origin = self._generators.states()
        return self._reset(None)

    def go_on_from(self, origin: States) -> Any | None:
        """Opens the episode that followed the states ``origin``; None where they are of other generators."""
        if not restore(self.env, origin):
            return None
        self.origin = origin
        return self._reset(None)

    def _reset(self, seed: int | None) -> Any:
        try:
            result: Any = self.env.reset() if seed is None else self.env.reset(seed=seed)
        except FAILURES as error:
            raise raised(self.where(), f"reset({'' if seed is None else 'seed=...'})", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise BadValueError(f"{self.where()}: reset() returned {short(result)}: {OLD_RESET}")
        self.first_observed = result[0]
        return result[0]

    def drawn(self) -> dict[Place, Snapshot]:
        """The generators that are followed, and their states."""
        return self._generators.snapshots()

    def generators(self) -> States:
        """The states of all generators there are."""
        return Generators(self.env).states()

    def snapshot(self) -> dict[str, Any] | None:
        """Where the simulator is, for those that can tell."""
        return snapshot(self.env)

    def restore(self, own: Mapping[str, Any], generators: States) -> bool:
        """Puts a simulator that has been reset where ``snapshot`` and ``generators`` were taken."""
        return restore_snapshot(self.env, own) and restore(self.env, generators)

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


def short(value: Any) -> str:
    """What a call returned, for a message."""
    if isinstance(value, tuple | list):
        return f"{len(value)} values" if len(value) != 1 else "1 value"
    return f"a {type(value).__name__}"

"""What the rules for environments look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rlcore.env import BatchedEnv, Spaces
from rlcore.envs import EnvSource, build_env, source_name
from rlcore.testing.kit.env.play import COLUMNS, PATIENCE, Player, Recording, Row, Track, leaves_of, play
from rlcore.testing.kit.report import Untested
from rlcore.testing.kit.rules import once

#: Endings per slot that a recording waits for.
EPISODES = 2


class EnvLab:
    """Builds an environment as often as the rules ask, and keeps one recording of it.

    ``polls`` bounds how long one recording is; it is shorter where two episodes of each slot have ended before.
    """

    def __init__(
        self,
        source: EnvSource,
        settings: Mapping[str, Any] | None = None,
        *,
        num_envs: int = 3,
        polls: int = 600,
        seed: int = 1,
        case: str = "",
    ) -> None:
        """Raises ``EnvError`` for an environment that was made already: rules need several."""
        given: Any = source
        if not isinstance(given, str) and not callable(given):
            build_env(given, num_envs, settings or {})
        self.source = source
        self.settings = dict(settings or {})
        self.num_envs = num_envs
        self.polls = polls
        self.seed = seed
        self.case = case

    @property
    def name(self) -> str:
        """How the environment is called in reports."""
        return source_name(self.source)

    def build(self) -> BatchedEnv:
        """A new one."""
        return build_env(self.source, self.num_envs, self.settings)

    @contextmanager
    def open(self, seed: int | None = None) -> Iterator[BatchedEnv]:
        """A new one for a while, reset with ``seed`` where one is given. ``Untested`` where it cannot be played."""
        assert self.recording
        with self.open_untried(seed) as env:
            yield env

    @contextmanager
    def open_untried(self, seed: int | None = None) -> Iterator[BatchedEnv]:
        """As ``open``, whether it can be played or not."""
        env = self.build()
        try:
            if seed is not None:
                env.reset(seed)
            yield env
        finally:
            env.close()

    def record(self, seed: int | None, polls: int | None = None, alike: bool = False) -> Recording:
        """What a new one hands over, whether the seed of its reset is given or None."""
        with self.open_untried() as env:
            env.reset(seed)
            return play(env, Player.of(env, self.seed, alike), polls or self.polls, EPISODES * self.num_envs)

    @once
    def recording(self) -> Recording:
        """What it handed over while it was played with random actions."""
        return self.record(self.seed)

    @once
    def groups(self) -> dict[str, Spaces]:
        """The spaces of each group."""
        with self.open_untried() as env:
            return dict(env.groups)

    @once
    def tracks(self) -> dict[Track, list[Row]]:
        """The recording agent by agent."""
        if self.lengths_differ:
            raise Untested("its columns differ in length")
        return self.recording.tracks()

    @once
    def lengths_differ(self) -> bool:
        """Whether some column has not one entry for each row."""
        for polled in self.recording.polls:
            for step in polled.values():
                lengths = {len(getattr(step, name)) for name in COLUMNS if name not in ("obs", "final_obs")}
                lengths |= {len(array) for array in leaves_of(step.obs).values()}
                ended = int((step.terminated | step.truncated).sum()) if len(lengths) == 1 else -1
                if len(lengths) != 1 or any(len(array) != ended for array in leaves_of(step.final_obs).values()):
                    return True
        return False

    @once
    def draws(self) -> bool:
        """Whether it draws frames as it was built, and nothing that this needs is missing."""
        with self.open(self.seed) as env:
            env.poll(PATIENCE)
            try:
                return env.render(0) is not None
            except Exception:  # another rule is about it
                return False

    def require_endings(self) -> None:
        """``Untested`` where no episode ended in the recording."""
        if not self.recording.endings:
            raise Untested(
                f"no episode ended within {len(self.recording.polls)} polls; allow more (polls=), or settings that "
                "make episodes shorter"
            )

    def ended_tracks(self) -> dict[Track, list[Row]]:
        """The tracks; ``Untested`` where no episode ended in the recording."""
        self.require_endings()
        return self.tracks

    def begin(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing is held."""

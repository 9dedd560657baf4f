"""Environments that film their episodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import BatchedEnv, StepBatch
from rlcore.envs import EnvSource, build_env, source_name
from rlcore.errors import ConfigError, EnvError, UserError
from rlcore.model import BatchedModel
from rlcore.sampling.collect import Episodes
from rlcore.video_files import Frame, VideoFile, best_format

#: Makes a video file at a path, of so many frames a second.
Format = Callable[[Path, float], VideoFile]

_NAME = re.compile(r"\.?episode-(\d+)\.")


def _slots(ready: Mapping[str, StepBatch], flag: str | None) -> list[int]:
    """The slots in ``ready`` of which some row has ``flag`` set, or all of them, each once."""
    found: set[int] = set()
    for step in ready.values():
        found.update(step.slot.tolist() if flag is None else step.slot[getattr(step, flag)].tolist())
    return sorted(found)


class Film(BatchedEnv):
    """An environment that writes videos of its episodes: ``episode-0001.mp4``, ``episode-0002.mp4`` ...

    Of each slot the first ``shares[slot]`` episodes that end are filmed. Files that are in the folder already are left
    as they are, and numbers go on after them. The frame after the last step is missing where the source resets in that
    step. Give it to an evaluator through :class:`FilmSource`.
    """

    def __init__(
        self, env: BatchedEnv, folder: Path, shares: Sequence[int], video_format: type[VideoFile] | None = None
    ) -> None:
        self._env = env
        self._folder = folder
        self._left = np.array(shares, np.int64)
        self._format: Any = video_format or best_format()
        self._running: dict[int, VideoFile] = {}
        self._number = max((int(found[1]) for path in folder.iterdir() if (found := _NAME.match(path.name))), default=0)
        self.groups, self.num_slots, self.name, self.lockstep = env.groups, env.num_slots, env.name, env.lockstep
        self.frames_per_second = env.frames_per_second

    def reset(self, seed: int | None) -> None:
        self._env.reset(seed)
        self._drop_running()

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        ready = self._env.poll(timeout)
        for slot in _slots(ready, "episode_over"):
            if slot in self._running:
                self._running.pop(slot).finish()
                self._left[slot] -= 1
        for slot in _slots(ready, "first"):
            # In an episode that runs an agent has joined it, or the environment was lost and begins anew.
            if self.lockstep and slot in self._running:
                self._running.pop(slot).discard()
            if slot not in self._running and self._left[slot] > 0:
                self._running[slot] = self._next_file()
        for slot in _slots(ready, None):
            if slot in self._running:
                self._add_frame(slot)
        return ready

    def _next_file(self) -> VideoFile:
        self._number += 1
        path = self._folder / f"episode-{self._number:04d}{self._format.suffix}"
        video: VideoFile = self._format(path, self.frames_per_second)
        return video

    def _add_frame(self, slot: int) -> None:
        frame = self._env.render(slot)
        if frame is None:
            raise EnvError(f"environment '{self.name}' cannot be drawn: it renders no RGB frames")
        try:
            self._running[slot].add(np.asarray(frame))
        except ValueError as error:
            raise EnvError(f"environment '{self.name}', slot {slot} cannot be filmed: {error}") from error

    def _drop_running(self) -> None:
        for recording in self._running.values():
            recording.discard()
        self._running = {}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        self._env.send(actions)

    def get_state(self) -> dict[str, Any] | None:
        return self._env.get_state()

    def set_state(self, state: dict[str, Any]) -> list[int]:
        self._drop_running()
        return self._env.set_state(state)

    def model(self) -> BatchedModel | None:
        return self._env.model()

    def render(self, slot: int) -> Frame | None:
        return self._env.render(slot)

    def close(self) -> None:
        self._drop_running()
        self._env.close()


class FilmSource:
    """A callable that makes ``source`` film itself into ``folder``: what an evaluator takes as its environment.

    Of ``episodes`` that are played, shared out over the slots as :class:`Episodes` does, the first ``most`` are filmed,
    or all. Where the environment draws nothing as it is, it is made again with ``render_mode="rgb_array"`` (Gymnasium's
    way). Raises ``EnvError`` where that does not help, ``UserError`` where the folder cannot be made.
    """

    def __init__(
        self,
        source: EnvSource,
        folder: Path,
        episodes: Episodes,
        most: int | None = None,
        video_format: type[VideoFile] | None = None,
    ) -> None:
        self._source = source
        self._folder = folder
        self._episodes = episodes
        self._most = episodes.count if most is None else most
        self._format = video_format

    def __call__(self, num_envs: int, **settings: Any) -> BatchedEnv:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write videos into {self._folder}: {error.strerror or error}") from error
        shares = self._episodes.shares(num_envs)
        shares = np.minimum(shares, np.maximum(self._most - (np.cumsum(shares) - shares), 0))
        env = self._drawing(num_envs, settings) or self._drawing_when_told(num_envs, settings)
        return Film(env, self._folder, shares.tolist(), self._format)

    def _drawing(self, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv | None:
        """The environment; None where it draws nothing."""
        env = build_env(self._source, num_envs, settings)
        draws = False
        try:
            env.reset(0)
            draws = env.render(0) is not None
        finally:
            if not draws:
                env.close()
        return env if draws else None

    def _drawing_when_told(self, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
        failure = f"environment '{source_name(self._source)}' cannot be drawn: it renders no RGB frames"
        try:
            env = self._drawing(num_envs, {**settings, "render_mode": "rgb_array"})
        except ConfigError as error:
            raise EnvError(f"{failure}, and takes no render_mode='rgb_array' among its settings: {error}") from error
        if env is None:
            raise EnvError(failure)
        return env

"""EpisodeEvents: tells hooks, where episodes are played, of each that has finished."""

from __future__ import annotations

from rlcore.hooks import Hooks, load_hooks
from rlcore.sampling.episode import Episode


class EpisodeEvents:
    """Tells the workers' hooks of finished episodes; they are loaded in the worker, when the first one finishes."""

    def __init__(self, worker: int, given: tuple[object, ...]) -> None:
        self._worker = worker
        self._given = given
        self._hooks: Hooks | None = None

    def __call__(self, episode: Episode) -> None:
        if self._hooks is None:
            self._hooks = load_hooks(self._given, installed=False)
        self._hooks.call.episode_end(worker=self._worker, episode=episode)

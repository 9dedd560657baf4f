"""What a run leaves behind: rows, checkpoints, TensorBoard events and the result, or nothing where no folder was asked
for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.checkpoint import Checkpoints
from rlcore.config import RunConfig
from rlcore.config_text import dump_yaml
from rlcore.hooks import Hooks
from rlcore.results import RunFolder, is_run_folder, plain
from rlcore.tensorboard import EventWriter, open_events

#: The part of a run folder that holds videos of evaluations.
VIDEOS = "videos"


class RunOutput:
    """Writes into one run folder; without one it only tells the hooks.

    ``goes_on`` is the iteration that a run goes on after, and its config as YAML; None for a new run.
    """

    def __init__(
        self,
        folder: RunFolder | None,
        config: RunConfig,
        hooks: Hooks,
        goes_on: tuple[int, str] | None = None,
    ) -> None:
        self._folder = folder
        self._settings = config.checkpoints
        self._video_every = config.evaluation.video_every
        self._hooks = hooks
        self._checkpoints: Checkpoints | None = (
            folder.checkpoints(config.checkpoints.keep, config.checkpoints.best) if folder is not None else None
        )
        self._events: EventWriter | None = None
        self._goes_on = goes_on
        self._new = goes_on is None

    @classmethod
    def create(cls, path: Path | str | None, config: RunConfig, hooks: Hooks) -> RunOutput:
        """A new run folder at ``path``, or none. ``RunFolderError`` where there is something already."""
        folder = RunFolder.create(path, dump_yaml(config.to_tree())) if path is not None else None
        return cls(folder, config, hooks)

    @classmethod
    def reopen(cls, folder: RunFolder | None, iteration: int, config: RunConfig, hooks: Hooks) -> RunOutput:
        """The folder of a run that goes on after ``iteration``; it changes when the run begins."""
        return cls(folder, config, hooks, (iteration, dump_yaml(config.to_tree())))

    @classmethod
    def take_over(cls, path: Path | str | None, iteration: int, config: RunConfig, hooks: Hooks) -> RunOutput:
        """A folder at ``path``, new or of a run, that goes on after ``iteration`` of another one; or none."""
        if path is None or not is_run_folder(path):
            return cls.create(path, config, hooks)
        output = cls.reopen(RunFolder.open(path), iteration, config, hooks)
        output.begin()
        return output

    @property
    def path(self) -> Path | None:
        """The run folder."""
        return self._folder.path if self._folder is not None else None

    def film_folder(self, evaluations: int) -> Path | None:
        """Where videos of the evaluation after so many others go; None where it is not to be filmed, or there is no
        folder."""
        if self._folder is None or self._video_every is None or evaluations % self._video_every:
            return None
        return self._folder.path / VIDEOS / f"evaluation-{evaluations + 1:04d}"

    def begin(self) -> None:
        """The run begins or goes on: what a later, lost part of it has left is dropped."""
        if self._folder is None:
            return
        if self._goes_on is not None and self._checkpoints is not None:
            iteration, config_yaml = self._goes_on
            self._folder.truncate(iteration)
            self._checkpoints.discard_after(iteration)
            self._folder.replace_config(config_yaml)
            self._goes_on = None
        self._folder.reopen()
        if self._events is None:
            self._events = open_events(self._folder.path)

    def append(self, row: Mapping[str, Any]) -> None:
        """Writes one row."""
        if self._folder is not None:
            self._folder.append(row)
        if self._events is not None:
            self._events.write(plain(row))

    def checkpoint_is_due(self, iteration: int, score: float | None, evaluated: bool) -> bool:
        """Every so many iterations, and where an evaluation has found the best weights so far."""
        if self._checkpoints is None:
            return False
        return iteration % self._settings.every == 0 or (evaluated and self._is_best(score))

    def _is_best(self, score: float | None) -> bool:
        if self._checkpoints is None or score is None or not self._settings.best:
            return False
        best = self._checkpoints.best_score()
        return best is None or score > best

    def checkpoint(
        self, iteration: int, state: Mapping[str, Any], manifest: Mapping[str, Any], score: float | None
    ) -> None:
        """Writes the checkpoint of ``iteration``."""
        if self._checkpoints is not None:
            best = self._is_best(score)
            path = self._checkpoints.save(iteration, state, manifest, score)
            self._hooks.call.checkpoint(path=path, iteration=iteration, best=best)

    def discard(self) -> None:
        """Removes a folder that this run has made; one that it goes on in stays."""
        self.close()
        if self._folder is not None and self._new:
            self._folder.remove()
            self._folder = self._checkpoints = None

    def finish(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Writes the result, and returns it as it was written."""
        if self._events is not None:
            self._events.close()
            self._events = None
        return self._folder.finish(result) if self._folder is not None else plain(result)

    def close(self) -> None:
        """Closes what is open; may be called twice."""
        if self._events is not None:
            self._events.close()
            self._events = None

"""TrialActor: the trainer of one trial as an actor of Ray Tune. It holds a trainer, and the trainer its evaluators."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.tune import Trainable

from rlcore.results import RunFolder, is_run_folder
from rlcore.runtime.sending import adopt
from rlcore.trainer import Trainer
from rlcore_tune.folder import write_whole
from rlcore_tune.records import finite
from rlcore_tune.trials import TrialSpec

#: Keys of a result, beside those that Tune adds.
TIME, VALUE = "reports", "value"

#: What Tune hands from trial to trial: whose state it is, and, where trials take over from others, the checkpoint.
POINTER, CHECKPOINT = "trial.json", "checkpoint"


@dataclass(frozen=True)
class TrialPlan:
    """What the actors of all trials of a search are told."""

    #: Where the driver imports from and what it has registered, for :func:`rlcore.runtime.sending.adopt`.
    program: bytes
    specs: tuple[TrialSpec, ...]
    #: The run folder of each trial.
    folders: tuple[str, ...]
    metric: str
    report_env_steps: int
    #: Whether trials take over from others, and so hand over their whole checkpoints.
    hands_over: bool


class TrialActor(Trainable):
    """A trial in a process of its own: each step of Tune's trains to the next report.

    It goes on from the last checkpoint in its run folder where there is one, so that it may be paused, lost or begun
    anew in a later session of the search. Where Tune restores it from another trial's state, it takes that over.
    """

    def setup(self, config: dict[str, Any], plan: TrialPlan) -> None:  # type: ignore[override]  # Tune hands it over
        """``config`` are the settings of the trial, ``{dotted key: value}``."""
        adopt(plan.program)
        self._plan = plan
        self._trainer: Trainer | None = None
        self._become(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Becomes the actor of another trial, or of the same with other settings: starting a process takes seconds."""
        self._close()
        self._become(new_config)
        return True

    def _become(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._index = int(self.trial_id)
        self._spec = self._plan.specs[self._index]
        self._folder = Path(self._plan.folders[self._index])
        self._value: float | None = None
        #: The trial that it has taken over from since the last report, and after how many environment steps.
        self._copied: tuple[int, int] | None = None

    def step(self) -> dict[str, Any]:
        """Trains to the next report, or to the end of the trial, which a failure is as well."""
        try:
            if self._trainer is None:
                self._trainer = self._go_on()
            reason = self._train(self._trainer)
            result = self._result(self._trainer, reason)
            if reason is not None:
                self._close()
        except Exception as error:  # whatever it is, it ends this trial and not the search
            return self._failed(error)
        return result

    def _train(self, trainer: Trainer) -> str | None:
        """The stop key that was reached, None at a report."""
        every = self._plan.report_env_steps
        due = (trainer.counters.env_steps // every + 1) * every
        while (reached := trainer.stop_reached()) is None:
            value = trainer.step().get(self._plan.metric)
            value = finite(float(value)) if value is not None else None
            self._value = value if value is not None else self._value
            # Trials cannot be compared by what they have not got yet.
            if trainer.counters.env_steps >= due and self._value is not None:
                return trainer.stop_reached()
        return reached

    def _result(self, trainer: Trainer, reason: str | None) -> dict[str, Any]:
        env_steps = trainer.counters.env_steps
        source, at = self._copied or (None, None)
        self._copied = None
        missing = reason is not None and self._value is None
        return {
            TIME: env_steps // self._plan.report_env_steps,
            # Tune's schedulers compute with it.
            VALUE: self._value if self._value is not None else float("nan"),
            "env_steps": env_steps,
            "settings": dict(self._settings),
            "copied_from": source,
            "copied_at": at,
            "reason": reason,
            "failure": f"no row of progress had a value of '{self._plan.metric}'" if missing else None,
            "done": reason is not None,
        }

    def _failed(self, error: Exception) -> dict[str, Any]:
        trace = self._folder.with_name(f"{self._folder.name}-error.txt")
        trace.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        env_steps = self._trainer.counters.env_steps if self._trainer is not None else 0
        return {
            TIME: env_steps // self._plan.report_env_steps,
            VALUE: self._value if self._value is not None else float("nan"),
            "env_steps": env_steps,
            "settings": dict(self._settings),
            "copied_from": None,
            "copied_at": None,
            "reason": None,
            "failure": f"{type(error).__name__}: {error}".partition("\n")[0],
            "done": True,
        }

    # -- where it goes on

    def _go_on(self) -> Trainer:
        """From its last checkpoint, or from the beginning."""
        if not is_run_folder(self._folder):
            return Trainer(self._spec.run(self._settings), out=self._folder)
        run = RunFolder.open(self._folder)
        if run.checkpoints().latest() is None:
            # It was killed before it had anything to go on from.
            run.remove()
            return Trainer(self._spec.run(self._settings), out=self._folder)
        # The search has made it, and whoever goes on with a search has said whether that is trusted.
        trainer = Trainer.restore(self._folder, trust=True)
        rows = [row for row in run.rows() if row["iteration"] <= trainer.counters.iteration]
        values = [row[self._plan.metric] for row in rows if row.get(self._plan.metric) is not None]
        self._value = float(values[-1]) if values else self._value
        self._copied = self._noted_copy(trainer)
        return trainer

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Writes the checkpoint into the run folder, and for Tune whose it is."""
        if self._trainer is not None:
            self._trainer.checkpoint()
        pointer = {"trial": self._index, "value": self._value}
        (Path(checkpoint_dir) / POINTER).write_text(json.dumps(pointer), encoding="utf-8")
        latest = RunFolder.open(self._folder).checkpoints().latest()
        if self._plan.hands_over and latest is not None:
            shutil.copytree(latest, Path(checkpoint_dir) / CHECKPOINT)
            # The trial will mostly go on in another actor, and this one be another's: its folder has one writer.
            self._close()

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Goes on from its own state, or takes over that of another trial, with the settings that Tune gave it."""
        pointer = json.loads((Path(checkpoint) / POINTER).read_text(encoding="utf-8"))
        self._close()
        self._value = pointer["value"]
        if pointer["trial"] == self._index:
            # Its run folder has the same, or later ones; with the first step.
            return
        source = Path(checkpoint) / CHECKPOINT
        at = int(json.loads((source / "manifest.json").read_bytes())["env_steps"])
        write_whole(self._copy_note, json.dumps({"trial": pointer["trial"], "env_steps": at}))
        self._trainer = Trainer.take_over(source, self._spec.run(self._settings, copied_at=at), out=self._folder)
        self._copied = pointer["trial"], at

    @property
    def _copy_note(self) -> Path:
        """Where it stands whom it has taken over from last."""
        return self._folder.with_name(f"{self._folder.name}-copied.json")

    def _noted_copy(self, trainer: Trainer) -> tuple[int, int] | None:
        """Whom the course that ``trainer`` goes on with was taken over from, where that is so: its process may have
        died before it could report it."""
        if not self._copy_note.exists():
            return None
        note = json.loads(self._copy_note.read_text(encoding="utf-8"))
        copied = int(note["trial"]), int(note["env_steps"])
        # A kill may have come between the note and the course.
        return copied if trainer.config.seed == self._spec.seed(copied[1]) else None

    def cleanup(self) -> None:
        """Ends the run, with a checkpoint; it may go on later."""
        self._close()

    def _close(self) -> None:
        trainer, self._trainer = self._trainer, None
        if trainer is not None:
            trainer.close()

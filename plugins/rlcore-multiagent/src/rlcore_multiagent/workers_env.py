"""WorkersEnv: the copies shared by processes of their own. What they do is what they would do in this one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, concatenate, take
from rlcore.env import BatchedEnv, StepBatch
from rlcore.model import BatchedModel
from rlcore.restarts import Restarts
from rlcore_multiagent import played
from rlcore_multiagent.answers import Answers
from rlcore_multiagent.failures import ActionsError
from rlcore_multiagent.settings import StageSettings
from rlcore_multiagent.stage import Build
from rlcore_multiagent.staged import EPISODES, entropy_of
from rlcore_multiagent.worker_main import Task
from rlcore_multiagent.workers import Worker, WorkerGone

LOGGER = logging.getLogger(__name__)

#: Columns of a state with an entry for each slot.
_BY_SLOT = ("episode", "env_step", "met", "owed", "first")


class WorkersEnv(BatchedEnv):
    """Copies in ``settings.workers`` processes, or as many as there are copies; all take their moves side by side.

    A worker that is lost in a step (killed, ended, or silent for too long) ends the run, or, where ``settings`` have it
    so, its copies begin anew in another one, as often as :mod:`rlcore.restarts` says: all their agents have a row that
    is ``first``, and the move that was under way did not happen.
    """

    def __init__(self, build: Build, num_envs: int, name: str, settings: StageSettings) -> None:
        """Raises ``EnvError`` where the copies cannot be built, or what builds them cannot be sent."""
        self.name = name
        self.num_slots = num_envs
        self._step_timeout = settings.step_timeout
        self._restarts = Restarts(num_envs) if settings.restarts else None
        #: What all episodes follow from, and how many workers were lost since they began.
        self._entropy, self._life = 0, 0
        self._workers: list[Worker] = []
        shares = np.array_split(np.arange(num_envs), min(settings.workers, num_envs))
        try:
            for number, own in enumerate(shares):
                task = Task(build, name, int(own[0]), len(own), settings.shuffle_seats, settings.restarts)
                self._workers.append(Worker(task, number, self._step_timeout))
            self.groups, self.agents, self.frames_per_second, self._model = self._answers_of_all()[0]
        except BaseException:
            self.close()
            raise
        self._answers = Answers(name, self.groups)
        #: By worker, what it has handed over and waits for.
        self._polled: list[dict[str, StepBatch]] = []
        self._arrived: list[dict[str, StepBatch]] = []
        self._coming, self._started = False, False
        self._ready: dict[str, StepBatch] | None = None

    def _answers_of_all(self) -> list[Any]:
        return [worker.answer(None) for worker in self._workers]

    def reset(self, seed: int | None) -> None:
        # None of them draws a seed of its own: their slots would not be those of one environment.
        drawn = int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) if seed is None else seed
        self._entropy, self._life = entropy_of(drawn), 0
        for worker in self._workers:
            worker.ask("reset", drawn)
        self._polled, self._arrived = [], []
        self._coming, self._ready, self._started = True, None, True

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._coming:
            # What has arrived before a timeout stays.
            while len(self._arrived) < len(self._workers):
                self._arrived.append(self._rows_of(len(self._arrived), timeout))
            self._polled, self._coming = self._arrived, False
            self._ready = self._joined(self._polled)
            self._note_endings(self._ready)
        if self._ready is None:
            raise TimeoutError(f"{self.name}: {self._answers.missing} rows wait for an action, nothing is ready")
        ready, self._ready = self._ready, None
        self._answers.await_for(ready)
        return ready

    def _rows_of(self, number: int, timeout: float | None) -> dict[str, StepBatch]:
        """What a worker hands over, or another one in its place."""
        while True:
            worker = self._workers[number]
            try:
                rows: dict[str, StepBatch] = worker.answer(timeout)
            except WorkerGone as gone:
                self._replace(number, worker, gone)
            else:
                return rows

    def _replace(self, number: int, worker: Worker, gone: WorkerGone) -> None:
        """Has another worker begin anew with the copies of one that is lost; raises ``gone`` if that is not to be."""
        if self._restarts is None:
            raise gone
        self._restarts.note(worker.task.slots, gone)
        LOGGER.warning("%s\nits slots begin anew in another worker", gone)
        worker.close()
        self._life += 1
        self._workers[number] = Worker(worker.task, number, self._step_timeout)
        self._workers[number].answer(None)
        self._workers[number].ask("begin_again", self._entropy, self._life)

    def _note_endings(self, polled: Mapping[str, StepBatch]) -> None:
        if self._restarts is not None:
            over = [step.slot[step.episode_over] for step in polled.values()]
            self._restarts.ended(np.unique(np.concatenate(over)).tolist())

    def _joined(self, polled: Sequence[dict[str, StepBatch]]) -> dict[str, StepBatch]:
        found = {}
        for group in self.groups:
            owners = zip(self._workers, polled, strict=True)
            parts = [(worker.task.first, own[group]) for worker, own in owners if group in own]
            if parts:
                found[group] = _concatenated(parts)
        return found

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._coming or self._ready is not None or not self._started:
            raise ActionsError(f"{self.name}: actions were sent before the rows that they answer were polled")
        self._answers.take(actions)
        if not self._answers.complete:
            return
        for worker in self._workers:
            own = {}
            for group, (slots, chosen) in self._answers.given.items():
                rows = (slots >= worker.task.first) & (slots < worker.task.slots.stop)
                if rows.any():
                    own[group] = slots[rows] - worker.task.first, take(chosen, rows)
            worker.ask("send", own)
        self._arrived, self._coming = [], True

    def get_state(self) -> dict[str, Any] | None:
        """That of one environment with all the copies."""
        for worker in self._workers:
            worker.ask("get_state")
        states = self._answers_of_all()
        if not states[0]["started"]:
            return {"started": False}
        firsts = [worker.task.first for worker in self._workers]
        return {
            "started": True,
            "entropy": states[0]["entropy"],
            **{name: np.concatenate([state[name] for state in states]) for name in _BY_SLOT},
            "played": played.joined([state["played"] for state in states], firsts),
            "seen": _joined_seen([state["seen"] for state in states], firsts),
        }

    def set_state(self, state: dict[str, Any]) -> list[int]:
        if not state["started"]:
            return []
        for worker in self._workers:
            worker.ask("set_state", _part(state, worker.task.first, worker.task.count))
        self._entropy, self._life = int(state["entropy"]), int(state["episode"].max(initial=0)) // EPISODES
        answers = self._answers_of_all()
        self._polled = [polled for _, polled in answers]
        self._coming, self._started, self._ready = False, True, self._joined(self._polled)
        owners = zip(self._workers, answers, strict=True)
        return [worker.task.first + slot for worker, (lost, _) in owners for slot in lost]

    def model(self) -> BatchedModel | None:
        model: BatchedModel | None = self._model
        return model

    def render(self, slot: int) -> Array | None:
        worker = next(one for one in self._workers if slot in one.task.slots)
        worker.ask("render", slot - worker.task.first)
        frame: Array | None = worker.answer(None)
        return frame

    def close(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.begin_close()
        for worker in workers:
            worker.close()


def _part(state: Mapping[str, Any], first: int, count: int) -> dict[str, Any]:
    """What a state of all slots says of some of them."""
    return {
        **state,
        **{name: state[name][first : first + count] for name in _BY_SLOT},
        "played": played.of_slots(state["played"], first, count),
        "seen": played.of_slots(state["seen"], first, count),
    }


def _joined_seen(trees: list[Any], firsts: list[int]) -> dict[str, Any]:
    """Groups in which nobody waits are in no worker's part."""
    found: dict[str, Any] = {}
    for group in sorted({group for tree in trees for group in tree}):
        holders = [(tree, first) for tree, first in zip(trees, firsts, strict=True) if group in tree]
        parts = [{group: tree[group]} for tree, _ in holders]
        found |= played.joined(parts, [first for _, first in holders])
    return found


def _concatenated(parts: Sequence[tuple[int, StepBatch]]) -> StepBatch:
    """The rows of several workers, whose slots are numbered from their firsts on."""
    columns: dict[str, Any] = {}
    for name in StepBatch.__slots__:
        values = [getattr(step, name) + first if name == "slot" else getattr(step, name) for first, step in parts]
        columns[name] = concatenate(values)
    return StepBatch(**columns)

"""WorkersEnv: the copies shared by processes of their own. What they do is what they would do in this one."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, take
from rlcore.env import BatchedEnv, StepBatch
from rlcore.errors import EnvError, UserError
from rlcore_multiagent import played
from rlcore_multiagent.answers import Answers
from rlcore_multiagent.failures import ActionsError
from rlcore_multiagent.settings import StageSettings
from rlcore_multiagent.stage import Build
from rlcore_multiagent.worker_main import Task

#: Seconds that a worker gets to end.
ENDING_S = 5.0

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rlcore_multiagent.worker_main import main; main({}, {})"
)

#: Columns of a state with an entry for each slot.
_BY_SLOT = ("episode", "env_step", "met", "owed", "first")


class Worker:
    """One process, which ends when this one does, however that ends."""

    def __init__(self, task: Task, number: int) -> None:
        self.first, self.count = task.first, task.count
        self._name = task.name
        packed = _packed(task)
        own, theirs = socket.socketpair()
        life, self._life = os.pipe()
        try:
            self._process = _start(theirs.fileno(), life)
        except OSError as error:
            own.close()
            os.close(self._life)
            raise EnvError(f"{task.name}: a worker process cannot be started: {error.strerror or error}") from error
        finally:
            theirs.close()
            os.close(life)
        self._title = f"worker {number}, process {self._process.pid}"
        self._link = Connection(own.detach())
        self.ask("make", packed)

    def ask(self, method: str, *arguments: Any) -> None:
        """Requests something; ``answer`` waits for what comes of it."""
        # Whoever is gone is missed when its answer is waited for.
        with contextlib.suppress(OSError):
            self._link.send_bytes(pickle.dumps((method, arguments), pickle.HIGHEST_PROTOCOL))

    def answer(self, timeout: float | None) -> Any:
        """What the last request gave; what it raised is raised. ``TimeoutError`` where it has not come in time."""
        if not self._link.poll(timeout):
            raise TimeoutError(f"{self._name}: {self._title} has not answered within {timeout:g} s")
        try:
            fine, value = pickle.loads(self._link.recv_bytes())
        except (EOFError, OSError):
            raise EnvError(f"{self._name}: {self._title} {self._how_it_ended()}") from None
        if fine:
            return value
        if isinstance(value, UserError):
            raise value
        raise EnvError(f"{self._name}: {self._title}: {type(value).__name__}: {value}") from value

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def begin_close(self) -> None:
        """Lets the process end."""
        self._link.close()

    def close(self) -> None:
        """Waits for the end of the process, or brings it about; may be called twice."""
        self.begin_close()
        try:
            self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._life >= 0:
            os.close(self._life)
            self._life = -1


class WorkersEnv(BatchedEnv):
    """Copies in ``settings.workers`` processes, or as many as there are copies; all take their moves side by side."""

    def __init__(self, build: Build, num_envs: int, name: str, settings: StageSettings) -> None:
        """Raises ``EnvError`` where the copies cannot be built, or what builds them cannot be sent."""
        self.name = name
        self.num_slots = num_envs
        self._workers: list[Worker] = []
        shares = np.array_split(np.arange(num_envs), min(settings.workers, num_envs))
        try:
            for number, own in enumerate(shares):
                task = Task(build, name, int(own[0]), len(own), settings.shuffle_seats)
                self._workers.append(Worker(task, number))
            self.groups, self.agents, self.frames_per_second = self._answers_of_all(None)[0]
        except BaseException:
            self.close()
            raise
        self._answers = Answers(name, self.groups)
        #: By worker, what it has handed over and waits for.
        self._polled: list[dict[str, StepBatch]] = []
        self._arrived: list[dict[str, StepBatch]] = []
        self._coming, self._started = False, False
        self._ready: dict[str, StepBatch] | None = None

    def _answers_of_all(self, timeout: float | None) -> list[Any]:
        return [worker.answer(timeout) for worker in self._workers]

    def reset(self, seed: int | None) -> None:
        # None of them draws a seed of its own: their slots would not be those of one environment.
        drawn = int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) if seed is None else seed
        for worker in self._workers:
            worker.ask("reset", drawn)
        self._polled, self._arrived = [], []
        self._coming, self._ready, self._started = True, None, True

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._coming:
            # What has arrived before a timeout stays.
            while len(self._arrived) < len(self._workers):
                self._arrived.append(self._workers[len(self._arrived)].answer(timeout))
            self._polled, self._coming = self._arrived, False
            self._ready = self._joined(self._polled)
        if self._ready is None:
            raise TimeoutError(f"{self.name}: {self._answers.missing} rows wait for an action, nothing is ready")
        ready, self._ready = self._ready, None
        self._answers.await_for(ready)
        return ready

    def _joined(self, polled: Sequence[dict[str, StepBatch]]) -> dict[str, StepBatch]:
        found = {}
        for group in self.groups:
            owners = zip(self._workers, polled, strict=True)
            parts = [(worker.first, own[group]) for worker, own in owners if group in own]
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
                rows = (slots >= worker.first) & (slots < worker.first + worker.count)
                if rows.any():
                    own[group] = slots[rows] - worker.first, take(chosen, rows)
            worker.ask("send", own)
        self._arrived, self._coming = [], True

    def get_state(self) -> dict[str, Any] | None:
        """That of one environment with all the copies."""
        for worker in self._workers:
            worker.ask("get_state")
        states = self._answers_of_all(None)
        if not states[0]["started"]:
            return {"started": False}
        firsts = [worker.first for worker in self._workers]
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
            worker.ask("set_state", _part(state, worker.first, worker.count))
        answers = self._answers_of_all(None)
        self._polled = [polled for _, polled in answers]
        self._coming, self._started, self._ready = False, True, self._joined(self._polled)
        return [worker.first + slot for worker, (lost, _) in zip(self._workers, answers, strict=True) for slot in lost]

    def render(self, slot: int) -> Array | None:
        worker = next(one for one in self._workers if one.first <= slot < one.first + one.count)
        worker.ask("render", slot - worker.first)
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
        if isinstance(values[0], dict):
            columns[name] = {leaf: np.concatenate([value[leaf] for value in values]) for leaf in values[0]}
        else:
            columns[name] = np.concatenate(values)
    return StepBatch(**columns)


def _packed(task: Task) -> bytes:
    try:
        packed: bytes = cloudpickle.dumps(task)
    except Exception as error:
        raise EnvError(
            f"{task.name}: it cannot be sent to a worker process, because something that it is built from cannot be "
            f"pickled: {type(error).__name__}: {error}; make that within the class or function, or set workers to 0"
        ) from error
    return packed


def _start(number: int, life: int) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OSError("this program does not say which Python runs it (sys.executable)")
    program = [sys.executable, "-c", _PROGRAM.format(number, life), json.dumps(sys.path)]
    # Each of many workers has one core at the most; stdout is for results, which a worker has none of.
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(number, life), env=environment, process_group=0
    )


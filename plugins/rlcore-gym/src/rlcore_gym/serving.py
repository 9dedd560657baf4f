"""What a worker does: it answers requests about the copies of an environment that are its own."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import errors
from rlcore.env import Spaces
from rlcore.errors import EnvError, UserError
from rlcore_gym.board import Board
from rlcore_gym.copies import Copies, Rules
from rlcore_gym.failures import FAILURES, close, raised
from rlcore_gym.recording import Take
from rlcore_gym.seeds import Draws
from rlcore_gym.stepping import Env
from rlcore_gym.takes import restore, takes


@dataclass(frozen=True)
class Task:
    """The slots ``first`` to ``stop`` (which is not its own) of an environment with ``num_slots``."""

    build: Callable[[], Env]
    name: str
    spaces: Spaces
    num_slots: int
    first: int
    stop: int
    rules: Rules

    @property
    def span(self) -> slice:
        """Its rows of the board."""
        return slice(self.first, self.stop)


@dataclass(frozen=True)
class Failure:
    """An exception that left a request: the name of its class among rlcore's, what it says, and the whole trace."""

    kind: str
    message: str
    trace: str

    @classmethod
    def of(cls, error: BaseException, name: str) -> Failure:
        """``error`` in words; ``name`` is that of the environment."""
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, UserError):
            return cls(type(error).__name__, str(error), trace)
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return cls(EnvError.__name__, f"{name}: a worker failed: {said}", trace)

    def error(self, worker: str) -> UserError:
        """The exception to raise where the request came from; its cause holds the trace of ``worker``."""
        kind = getattr(errors, self.kind, EnvError)
        error: UserError = kind(f"{self.message}\n(in {worker})")
        error.__cause__ = WorkerTrace(self.trace, worker)
        return error


class WorkerTrace(Exception):
    """The trace of an exception in a worker, as text."""

    def __init__(self, trace: str, worker: str) -> None:
        super().__init__(trace, worker)
        self.trace = trace
        self.worker = worker

    def __str__(self) -> str:
        return f"in {self.worker}\n{self.trace.rstrip()}"


@dataclass(frozen=True)
class Answer:
    """To a request: its value, whether an episode ended, what is to be told, and what went wrong."""

    value: Any = None
    ended: bool = False
    events: Sequence[str] = field(default_factory=list)
    failure: Failure | None = None


class Server:
    """The copies of ``task``, built at once, and the requests that can be made of them.

    ``board`` is that of the whole environment. Raises ``EnvError`` where a copy cannot be built.
    """

    def __init__(self, task: Task, board: Board) -> None:
        self._task = task
        self._built = self._build(board.rows(task.span))

    def _build(self, board: Board) -> Copies:
        task, envs = self._task, []
        board.calling[0] = -1
        try:
            for slot in range(task.first, task.stop):
                try:
                    envs.append(task.build())
                except UserError:
                    raise
                except FAILURES as error:
                    raise raised(f"{task.name}, slot {slot}", "building it", error) from error
                board.calls[0] += 1
            return Copies(
                envs, task.name, task.spaces, board, task.rules, task.build, first=task.first, watched=True
            )
        except BaseException:
            for slot, env in enumerate(envs, task.first):
                close(env, f"{task.name}, slot {slot}")
            raise

    def step(self) -> Answer:
        """One step of all copies."""
        return self._answer(self._built.step_board)

    def call(self, method: str, arguments: tuple[Any, ...]) -> Answer:
        """Any other request: ``open open_watched takes restore rest render bind close``."""
        return self._answer(lambda: getattr(self, method)(*arguments))

    def _answer(self, call: Callable[[], Any]) -> Answer:
        copies = self._built
        try:
            value = call()
        except FAILURES as error:
            return Answer(events=copies.take_events(), failure=Failure.of(error, self._task.name))
        return Answer(value, value is True, copies.take_events())

    def open(self, seeds: Sequence[int]) -> None:
        """Opens an episode in every slot."""
        self._built.open(seeds)

    def open_watched(self, seeds: Sequence[int]) -> list[Draws]:
        """The same, and what each drew."""
        return self._built.open_watched(seeds)

    def takes(self) -> list[Take]:
        """The states of all slots."""
        return takes(self._built)

    def restore(self, known: Sequence[Take | None], seeds: Sequence[int]) -> list[int]:
        """Puts the slots where they were; the numbers of those that begin anew."""
        return [self._task.first + slot for slot in restore(self._built, known, seeds)]

    def rest(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Steps some slots no more; the numbers of those."""
        first = self._task.first
        return first + self._built.rest(slots - first)

    def render(self, slot: int) -> Any:
        """What ``render`` of one slot gives."""
        return self._built.render(slot - self._task.first)

    def bind(self, board: Board) -> None:
        """Answers on another board of the whole environment from now on."""
        self._built.bind(board.rows(self._task.span))

    def close(self) -> None:
        """Closes the copies."""
        self._built.close()

"""Copies of a ``gymnasium.Env`` that step side by side, in threads or in processes."""

from __future__ import annotations

import copy
import itertools
import logging
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, take
from rlcore.errors import EnvError, UserError
from rlcore.restarts import Restarts
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.recording import Recording, Take, record
from rlcore_gym.rendering import rgb
from rlcore_gym.replay import leaves
from rlcore_gym.seeds import Follow, check_streams, following_seed, slot_seeds
from rlcore_gym.serving import Answer, Task
from rlcore_gym.workers import CLOSING, Worker, WorkerGone, WorkerPool

LOGGER = logging.getLogger(__name__)

#: Seconds that a worker has for starting, at the least: a new interpreter has to be loaded.
_STARTING = 60.0


@dataclass(frozen=True)
class Supervision:
    """How workers are watched. ``step_timeout``: seconds that one call of one environment may take."""

    step_timeout: float
    restarts: bool


class ParallelEnv(LockstepEnv):
    """The same as :class:`InProcessEnv`, batch for batch, with the copies shared out among ``workers`` of ``pool``.

    A step begins when actions are sent, so that the caller may do something else until it polls. Workers are started
    by the first ``reset`` or ``set_state``.

    An environment that raises gives ``EnvError`` with its own trace. So does a worker that is killed, ends, or has not
    come back from one call of an environment for ``step_timeout`` seconds. Where restarts are allowed the slots
    concerned begin anew instead, as often as :mod:`rlcore.restarts` says: their rows are ``first``, and the step
    that was under way in them did not happen.
    """

    def __init__(
        self,
        pool: WorkerPool,
        task: Task,
        workers: int,
        supervision: Supervision,
        frames_per_second: float,
    ) -> None:
        super().__init__(copy.deepcopy(task.spaces), task.num_slots, task.name, pool.board)
        self.frames_per_second = frames_per_second
        self._pool = pool
        self._supervision = supervision
        borders = np.linspace(0, task.num_slots, workers + 1).round().astype(int).tolist()
        self._tasks = [
            replace(task, first=first, stop=stop) for first, stop in itertools.pairwise(borders)
        ]
        #: None stands for one that has to be started.
        self._workers: list[Worker | None] = [None] * workers
        #: Workers whose answer is awaited, and those of them that only begin.
        self._pending: list[int] = []
        self._starting: set[int] = set()
        #: Workers that have gone, and exceptions in others, as far as nobody has heard of them.
        self._lost: dict[int, UserError] = {}
        self._failed: list[UserError] = []
        self._asked_at = 0.0
        #: Whether copies were once seen to start differently; then they do so from other seeds as well.
        self._streams_differ = False
        #: Whether an episode ended in this step.
        self._ended = False
        #: Whether something may write to the board that should not.
        self._overwritable = False
        self._restarts = Restarts(task.num_slots)
        self._seeds = [0] * task.num_slots
        self._nothing = take(pool.board.actions, slice(0, 0))
        self._end = weakref.finalize(self, _end_all, self._workers, pool)

    # -- asking workers

    def _ask(self, indexes: Sequence[int], begin: Callable[[Worker, Task], None]) -> None:
        """Makes a request of some workers; ``_answers`` collects what they say."""
        self._asked_at = time.monotonic()
        for index in indexes:
            worker = self._workers[index]
            if worker is None:
                self._lost.setdefault(index, EnvError(f"{self.name}: worker {index} is gone"))
            else:
                begin(worker, self._tasks[index])
                self._pending.append(index)

    def _answers(self, deadline: float | None = None) -> dict[int, Answer]:
        """The answers by worker. ``TimeoutError`` after ``deadline``, when what has been answered is not lost.

        A worker that is lost is noted in ``_lost``; an exception in one is raised, when all others have answered.
        """
        answers: dict[int, Answer] = {}
        while self._pending:
            index = self._pending[0]
            worker = self._workers[index]
            assert worker is not None
            try:
                answers[index] = self._await(index, worker, deadline)
            except WorkerGone as gone:
                self._give_up(index, worker, self._last_words(index, worker, str(gone)))
            else:
                self._hear(index, worker, answers[index])
            self._starting.discard(index)
            self._pending.pop(0)
        if self._failed:
            failed, self._failed = self._failed, []
            raise failed[0]
        return answers

    def _hear(self, index: int, worker: Worker, answer: Answer) -> None:
        self._ended |= answer.ended
        for event in answer.events:
            LOGGER.warning("%s", event)
        if answer.failure is None:
            return
        error = answer.failure.error(worker.title)
        if index in self._starting:
            self._give_up(index, worker, error)
        else:
            self._failed.append(error)

    def _await(self, index: int, worker: Worker, deadline: float | None) -> Answer:
        """``WorkerGone`` where the worker's environments make no progress for too long."""
        allowed = self._supervision.step_timeout
        board, first = self._board, self._tasks[index].first
        since, calls = self._asked_at, int(board.calls[first])
        while True:
            now = time.monotonic()
            wait = max(since + allowed - now, 0.0) or allowed
            try:
                return worker.finish(wait if deadline is None else min(wait, deadline - now))
            except TimeoutError:
                now = time.monotonic()
                if deadline is not None and now >= deadline:
                    raise
            if int(board.calls[first]) != calls:
                since, calls = now, int(board.calls[first])
            # Between calls it may have to load what the environments need, or write down their states.
            elif now - since >= (allowed if board.calling[first] >= 0 else max(allowed, _STARTING)):
                raise WorkerGone(f"did not come back for {now - since:.3g} s (step_timeout: {allowed:g})")

    def _last_words(self, index: int, worker: Worker, why: str) -> EnvError:
        """What became of a worker, and what it did last."""
        task, board = self._tasks[index], self._board
        slot = int(board.calling[task.first])
        doing = f"slot {slot}, step {board.env_step[slot]}" if slot >= 0 else "between two calls of its environments"
        slots = f"slot {task.first}" if task.stop == task.first + 1 else f"slots {task.first} to {task.stop - 1}"
        return EnvError(f"{self.name}, {doing}: {worker.title} ({slots}) {why}")

    def _give_up(self, index: int, worker: Worker, error: UserError) -> None:
        self._lost[index] = error
        worker.give_up()
        self._workers[index] = None
        self._overwritable = True

    def _settle(self) -> None:
        """Makes ready for a new request: awaits what was asked for and not fetched, and starts workers."""
        try:
            self._answers()
        except UserError as error:
            LOGGER.warning("%s", error)
        self._lost.clear()
        self._renew_board()
        for index, worker in enumerate(self._workers):
            if worker is None:
                self._start(index)
        self._answers()
        self._raise_lost()

    def _renew_board(self) -> None:
        overwritable, self._overwritable = self._overwritable, False
        if overwritable and self._pool.renew_board():
            self._board = self._pool.board
            there = [index for index, worker in enumerate(self._workers) if worker is not None]
            self._ask(there, lambda worker, _: worker.begin_call("bind", self._board))
            self._answers()

    def _start(self, index: int) -> None:
        """Starts a worker, whose first answer is then awaited."""
        self._asked_at = time.monotonic()
        self._board.calling[self._tasks[index].first] = -1
        self._workers[index] = self._pool.start(self._tasks[index], index)
        self._pending.append(index)
        self._starting.add(index)

    def _raise_lost(self) -> None:
        """Raises the first of those that were lost."""
        if self._lost:
            raise next(iter(self._lost.values()))

    # -- what began anew

    def _replace_lost(self) -> None:
        """Begins anew in the slots of lost workers, or raises where that is not allowed or in vain too often."""
        while self._lost:
            if not self._supervision.restarts:
                self._raise_lost()
            lost, self._lost = self._lost, {}
            for index, error in lost.items():
                slots = range(self._tasks[index].first, self._tasks[index].stop)
                self._restarts.note(slots, error)
                LOGGER.warning("%s\nits slots begin anew in another worker", error)
                for slot in slots:
                    self._seeds[slot] = following_seed(self._seeds[slot], Follow.RESTART)
            self._renew_board()
            for index in lost:
                self._start(index)
            self._answers()
            self._ask([index for index in lost if index not in self._lost], self._begin_open)
            self._answers()

    def _begin_open(self, worker: Worker, task: Task) -> None:
        worker.begin_call("open", self._seeds[task.span])

    def _begin_open_watched(self, worker: Worker, task: Task) -> None:
        worker.begin_call("open_watched", self._seeds[task.span])

    # -- the loop

    def _open(self, seed: int | None) -> None:
        self._seeds = slot_seeds(seed, self.num_slots)
        self._settle()
        self._ask(range(len(self._workers)), self._begin_open if self._streams_differ else self._begin_open_watched)
        answers = self._answers()
        if self._lost:
            self._replace_lost()
        elif not self._streams_differ:
            drawn = [own for index in range(len(self._workers)) for own in answers[index].value]
            check_streams(self.name, drawn, self._board.obs)
            self._streams_differ = True

    def _launch(self, actions: Columns) -> None:
        for column, chosen in zip(leaves(self._board.actions), leaves(actions), strict=True):
            column[...] = chosen
        self._ended = False
        self._ask(range(len(self._workers)), lambda worker, _: worker.begin_step())

    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        self._answers(None if timeout is None else time.monotonic() + timeout)
        if self._lost:
            self._replace_lost()
        over = self._board.over
        if not self._ended:
            return self._no_final
        self._restarts.ended(np.flatnonzero(over).tolist())
        return take(self._board.final, over)

    def rest(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        def own(task: Task) -> NDArray[np.int64]:
            return slots[(slots >= task.first) & (slots < task.stop)]

        concerned = [index for index, task in enumerate(self._tasks) if len(own(task))]
        self._ask(concerned, lambda worker, task: worker.begin_call("rest", own(task)))
        resting = [answer.value for answer in self._answers().values()]
        return self._let_rest(np.concatenate([slots[:0], *resting]))

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        if not self._savable():
            return None
        self._ask(range(len(self._workers)), lambda worker, _: worker.begin_call("takes"))
        answers = self._answers()
        takes: list[Take] = []
        for index, task in enumerate(self._tasks):
            # Of a worker that is lost nobody knows the state; the next step will tell about it.
            takes += answers[index].value if index in answers else map(self._unknown, range(task.first, task.stop))
        return record(takes, self._nothing)

    def _unknown(self, slot: int) -> Take:
        return Take(
            seed=self._seeds[slot],
            origin=None,
            step=int(self._board.env_step[slot]),
            own=None,
            actions=None,
            reward=float(self._board.reward[slot]),
            obs=take(self._board.obs, slot),
            generators={},
        )

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """As that of :class:`InProcessEnv`, whose states are the same."""
        self._phase = Phase.RESET
        known, seeds = Recording(state).for_slots(self.num_slots)
        self._seeds = [seed if one is None else one.seed for one, seed in zip(known, seeds, strict=True)]
        self._settle()
        self._ask(
            range(len(self._workers)),
            lambda worker, task: worker.begin_call("restore", known[task.span], seeds[task.span]),
        )
        answers = self._answers()
        lost = [slot for index in self._lost for slot in range(self._tasks[index].first, self._tasks[index].stop)]
        self._replace_lost()
        self._needs_action[:] = True
        self._show()
        return sorted(lost + [slot for answer in answers.values() for slot in answer.value])

    # -- the rest

    def render(self, slot: int) -> Array | None:
        if self._pending or not any(self._workers):
            raise EnvError(f"{self.name}: it can be drawn after reset() and poll()")
        index = next(number for number, task in enumerate(self._tasks) if slot < task.stop)
        self._ask([index], lambda worker, _: worker.begin_call("render", slot))
        answers = self._answers()
        return rgb(answers[index].value) if index in answers else None

    def close(self) -> None:
        self._phase = Phase.RESET
        self._end()


def _end_all(workers: list[Worker | None], pool: WorkerPool) -> None:
    """Asks all workers to close their environments, and ends those that do not."""
    there, workers[:] = [worker for worker in workers if worker is not None], [None] * len(workers)
    for worker in there:
        worker.begin_close()
    until = time.monotonic() + CLOSING
    for worker in there:
        worker.end(until - time.monotonic())
    pool.close()

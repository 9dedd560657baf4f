"""The driver's program and those of nested drivers. One runs at a time: whoever holds the baton.

A program that waits lets things happen until one of them wakes a program: then that one goes on. The driver runs in the
caller's own thread, each call of a nested driver in a thread of its own, and at most one thread ever runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from rlcore.runtime.sim.network import Place
from rlcore.runtime.sim.timeline import Timeline


class Watched(Protocol):
    """What programs wait for."""

    @property
    def settled(self) -> bool:
        """Whether it is there."""
        ...

    def when_settled(self, then: Callable[[], None]) -> None:
        """Has ``then`` called once it is there."""
        ...


class Ended(BaseException):
    """Unwinds the program of a nested driver whose worker is gone."""


class Program:
    """A driver, or one call of a nested one."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.baton = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.waits: Waiting | None = None
        #: Set where it is to be unwound.
        self.ended = False


class Waiting:
    """One wait of a program: over once nothing is missing any more, or at its end."""

    def __init__(self, program: Program, missing: int) -> None:
        self.program = program
        self.missing = missing


class Programs:
    """Who runs, and who waits for what."""

    def __init__(self, timeline: Timeline[Program], place: Place) -> None:
        self._timeline = timeline
        self.root = Program(place)
        self.current = self.root
        self._nested: set[Program] = set()
        self._failure: BaseException | None = None
        self._closing = False

    def wait(self, things: Iterable[Watched], n: int, until: float | None) -> None:
        """The current program waits for ``n`` of ``things``, or until then."""
        waiting = Waiting(self.current, n)

        def one_more() -> None:
            waiting.missing -= 1
            if waiting.missing == 0:
                self._timeline.at(self._timeline.now, lambda: self._wake(waiting))

        for thing in things:
            if thing.settled:
                waiting.missing -= 1
        if waiting.missing <= 0:
            return
        for thing in things:
            if not thing.settled:
                thing.when_settled(one_more)
        if until is not None:
            self._timeline.at(until, lambda: self._wake(waiting))
        self._pause(waiting)

    def sleep(self, until: float) -> None:
        """The current program does nothing until then."""
        self.wait((), 1, until)

    def start(self, place: Place, body: Callable[[], None]) -> Program:
        """Has ``body`` run as a program of its own."""
        program = Program(place)
        program.waits = waiting = Waiting(program, 0)
        program.thread = threading.Thread(target=self._live, args=(program, body), daemon=True)
        self._nested.add(program)
        program.thread.start()
        self._timeline.at(self._timeline.now, lambda: self._wake(waiting))
        return program

    def end(self, program: Program) -> None:
        """Unwinds a program: what it waits for raises :class:`Ended`."""
        program.ended = True
        waiting = program.waits
        if waiting is not None:
            self._timeline.at(self._timeline.now, lambda: self._wake(waiting))

    def close(self) -> None:
        """Unwinds all programs but the driver's."""
        self._closing = True
        while self._nested:
            program = min(self._nested, key=lambda one: one.place.name)
            program.ended = True
            self.current = program
            program.baton.release()
            assert program.thread is not None
            program.thread.join()
        self.current = self.root
        self._closing = False

    # -- the baton

    def _wake(self, waiting: Waiting) -> Program | None:
        program = waiting.program
        if program.waits is not waiting:
            return None
        program.waits = None
        return program

    def _pause(self, waiting: Waiting) -> None:
        """Lets things happen until the current program is woken."""
        program = self.current
        if program.ended or self._closing:
            raise Ended
        program.waits = waiting
        self._run(program)
        if program is self.root and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if program.ended:
            raise Ended

    def _run(self, program: Program | None) -> None:
        """Things happen until a program goes on: ``program`` itself, or another one while ``program`` waits its turn.

        None stands for one that is over.
        """
        try:
            woken = self._timeline.step()
            while woken is None:
                woken = self._timeline.step()
        except BaseException as error:  # raised by the driver, which waits for all this
            if program is self.root:
                program.waits = None
                raise
            woken = self._failed(error)
        if woken is program:
            return
        self.current = woken
        woken.baton.release()
        if program is not None:
            program.baton.acquire()

    def _failed(self, error: BaseException) -> Program:
        """The driver goes on, and raises ``error``."""
        self._failure = error
        self.root.waits = None
        return self.root

    def _live(self, program: Program, body: Callable[[], None]) -> None:
        program.baton.acquire()
        error: BaseException | None = None
        try:
            if not program.ended:
                body()
        except Ended:
            pass
        except BaseException as raised:  # such as SystemExit, which would end this thread alone
            error = raised
        self._nested.discard(program)
        if self._closing:
            return
        if error is None:
            self._run(None)
        else:
            self.current = self._failed(error)
            self.root.baton.release()

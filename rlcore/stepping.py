"""The optimizers of one run, step by step: those that go by rounds catch up, those that wait for nobody take turns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rlcore.errors import ConfigError, RlcoreError
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Ref, Runtime
from rlcore.sample_stream import Sample, SampleStream


class Awaited(Protocol):
    """What may be waited for, such as a stream of samples or calls in flight."""

    @property
    def next(self) -> list[Ref]:
        """References, of which one is ready when there is something to take in."""
        ...

    def patience(self) -> float:
        """Seconds that whoever waits should wait at the most."""
        ...


@dataclass(frozen=True)
class Turn:
    """What an optimizer waits for in the middle of a turn."""

    #: How many samples it takes after that. Where it has no room it waits for none of them.
    room: int
    #: What else may come.
    awaited: Sequence[Awaited] = ()
    #: Whether evaluators are to be asked for more samples than they were, and what it has of theirs that keeps them
    #: from giving more.
    wants_more: bool = True
    held: Collection[Sample] = ()


class TakesTurns(PolicyOptimizer):
    """An optimizer that waits for nobody, by what it does in one turn. Its step takes turns until it ``has_enough``.

    A turn is a generator that gives work to whoever can do any, gives one ``Turn``, and is resumed when something has
    come; it waits for nothing itself::

        def turn(self) -> Iterator[Turn]:
            ...                                         # what may be done is asked for
            yield Turn(room, [self._calls])
            for sample in self.samples.arrived(room): ...
            for done in self._calls.arrived(): ...

    Several such may share the evaluators of a run: they take turns together until each has enough, so that the workers
    of none are left without work while another one steps. Each gets every sample; evaluators wait for the slowest.
    """

    asynchronous = True
    #: Where its samples come from.
    samples: SampleStream

    @abstractmethod
    def turn(self) -> Iterator[Turn]:
        """Asks for what may be done, gives what there is to wait for, and takes in what has come."""

    @property
    @abstractmethod
    def has_enough(self) -> bool:
        """Whether enough has come in for the result of a step."""

    @abstractmethod
    def result(self, seconds: float) -> StepResult:
        """What has come in since the last result; the step took so many seconds."""

    def step(self) -> StepResult:
        return step_in_turns([self], self.runtime)[0]


def _never() -> bool:
    return False


def step_in_turns(
    optimizers: Sequence[TakesTurns], runtime: Runtime, is_cut_short: Callable[[], bool] = _never
) -> list[StepResult]:
    """A step of each, side by side, or the part of one that is over when it is to be cut short.

    Their timers are shares of the same seconds, so that they add up to those.
    """
    started = runtime.now()
    while not all(optimizer.has_enough for optimizer in optimizers) and not is_cut_short():
        programs = [optimizer.turn() for optimizer in optimizers]
        turns = [next(program) for program in programs]
        if all(turn.wants_more and not one.samples.full for one, turn in zip(optimizers, turns, strict=True)):
            for optimizer, turn in zip(optimizers, turns, strict=True):
                optimizer.samples.ask(turn.held)
        samples = [optimizer.samples for optimizer, turn in zip(optimizers, turns, strict=True) if turn.room > 0]
        wait_for_any([*samples, *(one for turn in turns for one in turn.awaited)], runtime)
        for optimizer, program in zip(optimizers, programs, strict=True):
            if next(program, None) is not None:
                raise RlcoreError(f"optimizer {type(optimizer).__name__} waits twice in one turn")
    seconds = runtime.now() - started
    return [_shared(optimizer.result(seconds), len(optimizers)) for optimizer in optimizers]


def _shared(result: StepResult, among: int) -> StepResult:
    """Of so many results of the same seconds: with its share of them."""
    return replace(result, timers={name: seconds / among for name, seconds in result.timers.items()})


def wait_for_any(awaited: Sequence[Awaited], runtime: Runtime) -> None:
    """Waits until something has come of any of them, or somebody's time is over."""
    patience = min(one.patience() for one in awaited)
    refs = [ref for one in awaited for ref in one.next]
    runtime.wait(refs, 1, None if patience == float("inf") else patience)


def check_together(names: Sequence[str], optimizers: Sequence[type[PolicyOptimizer]]) -> None:
    """Raises ``ConfigError`` where the optimizers of a run, of these names, cannot share its evaluators."""
    if len(names) == 1:
        return
    by_name = dict(zip(names, optimizers, strict=True))
    streaming = [name for name, optimizer in by_name.items() if optimizer.asynchronous]
    by_rounds = [name for name, optimizer in by_name.items() if not optimizer.asynchronous]
    if streaming and by_rounds:
        raise ConfigError(
            f"policies: optimizer '{streaming[0]}' takes samples as they come and '{by_rounds[0]}' goes by rounds, so "
            "they cannot share evaluators: give all policies optimizers of one sort"
        )
    for name in streaming:
        if not issubclass(by_name[name], TakesTurns):
            raise ConfigError(
                f"policies: optimizer '{name}' cannot share evaluators with another one: train all policies with it, "
                "with the same settings"
            )


def step_together(
    optimizers: Sequence[PolicyOptimizer], is_cut_short: Callable[[], bool] = _never
) -> list[StepResult]:
    """A step of each optimizer of a run; those whose steps take fewer rounds of samples step until they have caught up.

    Every sample is handed to each, so that one that takes fewer would fall behind the others for ever. Those that take
    turns leave their step when it ``is_cut_short``.
    """
    turning = [optimizer for optimizer in optimizers if isinstance(optimizer, TakesTurns)]
    if turning:
        return step_in_turns(turning, turning[0].runtime, is_cut_short)
    if len(optimizers) == 1:
        return [optimizers[0].step()]
    readers = [optimizer.reader for optimizer in optimizers]
    results, taken = [], []
    for optimizer, reader in zip(optimizers, readers, strict=True):
        before = reader.taken
        results.append(optimizer.step())
        taken.append(reader.taken - before)
    for optimizer, reader, rounds in zip(optimizers, readers, taken, strict=True):
        while rounds and reader.unread >= rounds:
            results.append(optimizer.step())
    return results

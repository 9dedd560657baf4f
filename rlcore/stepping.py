"""The optimizers of one run, step by step: those that go by rounds catch up, those that wait for nobody take turns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from rlcore.errors import ConfigError
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


class TakesTurns(PolicyOptimizer):
    """An optimizer that waits for nobody, by what it does in one turn. Its step takes turns until it ``has_enough``.

    Several such may share the evaluators of a run: they take turns together until each has enough, so that the workers
    of none are left without work while another one steps. Each gets every sample; evaluators wait for the slowest.
    """

    asynchronous = True
    #: Where its samples come from.
    samples: SampleStream

    def begin(self) -> None:
        """Before the first turn of a step."""

    @property
    @abstractmethod
    def has_enough(self) -> bool:
        """Whether enough has come in for the result of a step."""

    @property
    def wants_samples(self) -> bool:
        """Whether there is room for more samples."""
        return True

    @property
    def held(self) -> Collection[Sample]:
        """Samples that it has taken and that keep evaluators from giving more."""
        return ()

    def ask(self) -> None:
        """Asks its own workers for whatever may be done; it waits for nothing."""

    @abstractmethod
    def awaited(self) -> Sequence[Awaited]:
        """What there is to wait for."""

    @abstractmethod
    def take_in(self) -> None:
        """Takes in what has come; it waits for nothing."""

    @abstractmethod
    def result(self, seconds: float) -> StepResult:
        """What has come in since the last result; the step took so many seconds."""

    def step(self) -> StepResult:
        return step_in_turns([self], self.runtime)[0]


def step_in_turns(optimizers: Sequence[TakesTurns], runtime: Runtime) -> list[StepResult]:
    """A step of each, side by side. Their timers are shares of the same seconds, so that they add up to those."""
    for optimizer in optimizers:
        optimizer.begin()
    started = runtime.now()
    while not all(optimizer.has_enough for optimizer in optimizers):
        for optimizer in optimizers:
            optimizer.ask()
        if all(optimizer.wants_samples and not optimizer.samples.full for optimizer in optimizers):
            for optimizer in optimizers:
                optimizer.samples.ask(optimizer.held)
        wait_for_any([one for optimizer in optimizers for one in optimizer.awaited()], runtime)
        for optimizer in optimizers:
            optimizer.take_in()
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


def step_together(optimizers: Sequence[PolicyOptimizer]) -> list[StepResult]:
    """A step of each optimizer of a run; those whose steps take fewer rounds of samples step until they have caught up.

    Every sample is handed to each, so that one that takes fewer would fall behind the others for ever.
    """
    if len(optimizers) == 1:
        return [optimizers[0].step()]
    turning = [optimizer for optimizer in optimizers if isinstance(optimizer, TakesTurns)]
    if turning:
        return step_in_turns(turning, turning[0].runtime)
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

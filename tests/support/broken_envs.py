"""Environments that break one rule of the contract each, derived from Count and Dice, which keep all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.env import DEFAULT_GROUP, StepBatch
from rlcore.testing.environments import Count, TwoAgentEnv
from rlcore.testing.environments.steps import noise, seed_bits


class Dice(Count):
    """Count whose observations are random numbers, by seed, slot and step."""

    def reset(self, seed: int | None) -> None:
        self.seed = seed_bits(seed)
        super().reset(seed)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        step = polled[DEFAULT_GROUP]
        step.obs = self.faces(step.slot, step.env_step)
        ended = step.terminated | step.truncated
        step.final_obs = self.faces(step.slot[ended], np.full(ended.sum(), 1000))
        return polled

    def faces(self, slot: Any, step: Any) -> Any:
        bits = noise(np.asarray(self.seed, np.uint64), self.slot_number(slot), step)
        return (bits % np.uint64(1000)).astype(np.float32)[:, None]

    def slot_number(self, slot: Any) -> Any:
        return slot

    def get_state(self) -> dict[str, Any] | None:
        return {**(super().get_state() or {}), "seed": getattr(self, "seed", 0)}

    def set_state(self, state: dict[str, Any]) -> list[int]:
        self.seed = int(state["seed"])
        return super().set_state(state)


def tampered(change: Callable[[Count, StepBatch], Any], base: type[Count] = Count) -> type[Count]:
    """``base`` whose polls are changed in place by ``change``, or replaced by what it returns."""

    class Tampered(base):  # type: ignore[misc,valid-type]
        def poll(self, timeout: float | None) -> dict[str, StepBatch]:
            polled = super().poll(timeout)
            self.polls = getattr(self, "polls", 0) + 1
            changed = change(self, polled[DEFAULT_GROUP])
            return polled if changed is None else changed

    return Tampered


def columns(base: type[Count] = Count, **changes: Callable[[StepBatch], Any]) -> type[Count]:
    """``base`` with columns replaced by functions of the StepBatch."""

    def change(env: Count, step: StepBatch) -> None:
        new = {name: function(step) for name, function in changes.items()}
        for name, column in new.items():
            setattr(step, name, column)

    return tampered(change, base)


def attributes(**values: Any) -> type[Count]:
    """Count with other attributes."""

    class Other(Count):
        def __init__(self, num_envs: int = 1) -> None:
            super().__init__(num_envs)
            for name, value in values.items():
                setattr(self, name, value)

    return Other


def flags(step: StepBatch, value: bool) -> Any:
    return np.full(len(step.slot), value)


def ended(step: StepBatch) -> Any:
    return step.terminated | step.truncated


class Raising(Count):
    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        raise ZeroDivisionError("no ground")


class Backwards(Count):
    """Hands over its last slot first, and takes the answers in that order."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        polled[DEFAULT_GROUP].slot = polled[DEFAULT_GROUP].slot[::-1]
        return polled

    def send(self, actions: Any) -> None:
        super().send({group: (slots[::-1], chosen[::-1]) for group, (slots, chosen) in actions.items()})


class AsksTheEnded(Count):
    """Begins anew a poll later, and takes actions for what has ended."""

    def __init__(self, num_envs: int = 1) -> None:
        super().__init__(num_envs, next_step=True)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        polled[DEFAULT_GROUP].needs_action = np.ones(self.num_slots, np.bool_)
        return polled

    def send(self, actions: Any) -> None:
        if self._due.all():
            super().send(actions)
        else:
            self._advance()


class FromOne(Count):
    """Numbers its slots from 1."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        polled[DEFAULT_GROUP].slot = polled[DEFAULT_GROUP].slot + 1
        return polled

    def send(self, actions: Any) -> None:
        super().send({group: (slots - 1, chosen) for group, (slots, chosen) in actions.items()})


class Loose(Count):
    """Not in lockstep as far as it says."""

    lockstep = False


class SharedMemory(Count):
    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        step = polled[DEFAULT_GROUP]
        step.final_obs = step.obs[ended(step)] if not ended(step).all() else step.obs[:]
        return polled


class WritesBetween(Count):
    """Uses the observations that it handed over as scratch space while its state is taken."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        self.shown = polled[DEFAULT_GROUP].obs
        return polled

    def get_state(self) -> dict[str, Any] | None:
        state = super().get_state()
        if hasattr(self, "shown"):
            self.shown[:] = 0.0
        return state


class GlobalDice(Dice):
    """Draws from numpy's global generator."""

    def reset(self, seed: int | None) -> None:
        super().reset(int(np.random.default_rng().integers(2**31)))


class CountingResets(Dice):
    """Its second reset with a seed gives something else."""

    resets = 0

    def reset(self, seed: int | None) -> None:
        self.resets += 1
        super().reset(None if seed is None else seed + 100 * (self.resets > 1))


class AlikeSlots(Dice):
    def slot_number(self, slot: Any) -> Any:
        return np.zeros_like(slot)


class IgnoresSeed(Dice):
    """Always 5 where a seed is given."""

    def reset(self, seed: int | None) -> None:
        super().reset(None if seed is None else 5)


class NeedsSeed(Count):
    def reset(self, seed: int | None) -> None:
        super().reset(seed + 0)  # type: ignore[operator]


class GoesOnAfterReset(Count):
    """Starts anew for a seed only."""

    started = False

    def reset(self, seed: int | None) -> None:
        if seed is not None or not self.started:
            self.started = True
            super().reset(seed)
        else:
            self._ready = replace(self._polled, first=np.zeros(self.num_slots, np.bool_))  # type: ignore[type-var]


class TakesAnything(Count):
    def send(self, actions: Any) -> None:
        self._advance()


class RefusesOddly(Count):
    def send(self, actions: Any) -> None:
        try:
            super().send(actions)
        except ValueError as error:
            raise IndexError("what") from error


class RefusesTersely(Count):
    def send(self, actions: Any) -> None:
        try:
            super().send(actions)
        except ValueError:
            raise ValueError("bad actions") from None


class StepsBeforeChecking(Count):
    """Loses a step of its first slot where it refuses."""

    def send(self, actions: Any) -> None:
        self._t[0] += 1
        super().send(actions)
        self._t[0] -= 1


class OnlySaysItRests(Count):
    def rest(self, slots: Any) -> Any:
        return slots


class RestDisturbs(Count):
    """Loses a step of its first slot where another is to rest."""

    def rest(self, slots: Any) -> Any:
        self._t[0] -= 1
        return slots[:0]


class TakesTwice(Count):
    def send(self, actions: Any) -> None:
        if self._ready is None:
            super().send(actions)


class NeverTimesOut(Count):
    """Gives what it has given before."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            return {DEFAULT_GROUP: self._polled}  # type: ignore[dict-item]
        return super().poll(timeout)


class EmptyInsteadOfTimeout(Count):
    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        return {} if self._ready is None else super().poll(timeout)


class Hangs(Count):
    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            threading.Event().wait()
        return super().poll(timeout)


class LosesRows(Count):
    """Steps on by itself when a poll times out."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        try:
            return super().poll(timeout)
        except TimeoutError:
            self._t += 1
            raise


class ClosesOnce(Count):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("it is gone")
        self.closed = True


class ObjectState(Count):
    def get_state(self) -> dict[str, Any] | None:
        return {**(super().get_state() or {}), "rng": np.random.default_rng(1)}


class ListState(Count):
    def get_state(self) -> Any:
        return [super().get_state()]


class LiveState(Count):
    """Its state is its own array."""

    def get_state(self) -> dict[str, Any] | None:
        self._live = getattr(self, "_live", np.zeros(1))
        return {**(super().get_state() or {}), "live": self._live}

    def send(self, actions: Any) -> None:
        super().send(actions)
        self._live = getattr(self, "_live", np.zeros(1))
        self._live += 1


class AdoptsState(Count):
    """Goes on in the arrays that it was restored from."""

    def set_state(self, state: dict[str, Any]) -> list[int]:
        lost = super().set_state(state)
        self._t = self._adopted = state["t"]
        return lost

    def send(self, actions: Any) -> None:
        super().send(actions)
        if hasattr(self, "_adopted"):
            self._adopted += 1


class RepeatsTransition(Count):
    def set_state(self, state: dict[str, Any]) -> list[int]:
        lost = super().set_state(state)
        assert self._ready is not None
        self._ready.reward[:] = 1.0
        return lost


class ForgetsWhereItWas(Count):
    def set_state(self, state: dict[str, Any]) -> list[int]:
        super().set_state(state)
        self.reset(None)
        return []


class CountsRestarts(Count):
    def set_state(self, state: dict[str, Any]) -> Any:
        super().set_state(state)
        return 0


class RestartsHalfWay(Count):
    """Says that it restarted a slot in which nothing begins."""

    def set_state(self, state: dict[str, Any]) -> list[int]:
        super().set_state(state)
        assert self._ready is not None
        self._ready.first[0] = False
        return [0]


class ForgetsSeed(Dice):
    def set_state(self, state: dict[str, Any]) -> list[int]:
        assert self.__class__ is ForgetsSeed
        before = self.faces
        super().set_state(state)
        seed = self.seed
        # What waited is as it was; what follows is not.
        self.faces = lambda slot, step: before(slot, step) if self.first_again(seed) else before(slot, step) + 1.0
        return []

    def first_again(self, seed: int) -> bool:
        self.shown = getattr(self, "shown", 0) + 1
        return self.shown <= 2


class NoStateBeforeReset(Count):
    def reset(self, seed: int | None) -> None:
        self.began = True
        super().reset(seed)

    def get_state(self) -> dict[str, Any] | None:
        assert self.began
        return super().get_state()


class FloatFrames(Count):
    def render(self, slot: int) -> Any:
        return np.zeros((4, 4, 3))


class NotAModel(Count):
    def model(self) -> Any:
        return {"transitions": []}


class HalfOver(TwoAgentEnv):
    """Sets episode_over for one of two agents."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        for step in polled.values():
            step.episode_over[step.agent_id == "left"] = False
        return polled


class LeavesOneAlive(TwoAgentEnv):
    """Ends the episode while an agent goes on."""

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        for step in polled.values():
            step.episode_over[ended(step).repeat(1)] = True
            for slot in step.slot[ended(step)]:
                step.episode_over[step.slot == slot] = True
        return polled


def duplicated(env: Count, step: StepBatch) -> Any:
    rows = [0, 0, *range(1, len(step.slot))]
    table = {name: getattr(step, name)[rows] for name in ("slot", "agent_id", "reward", "terminated", "truncated")}
    table |= {name: getattr(step, name)[rows] for name in ("obs", "first", "env_step", "episode_over")}
    needs = step.needs_action[rows]
    needs[0] = False
    final = np.asarray(step.obs)[rows][table["terminated"] | table["truncated"]]
    return {DEFAULT_GROUP: StepBatch(**table, needs_action=needs, final_obs=final)}


def no_rows(env: Count, step: StepBatch) -> Any:
    if env.polls != 4:  # type: ignore[attr-defined]
        return None
    env._ready = step
    none = {name: getattr(step, name)[:0] for name in StepBatch.__dataclass_fields__}
    return {DEFAULT_GROUP: StepBatch(**none)}


def without_slot_0(env: Count, step: StepBatch) -> Any:
    keep = np.arange(1, len(step.slot))
    table = {name: getattr(step, name)[keep] for name in StepBatch.__dataclass_fields__ if name != "final_obs"}
    final = np.asarray(step.final_obs)
    env._due = np.asarray(step.slot > 0)
    return {DEFAULT_GROUP: StepBatch(**table, final_obs=final[bool(ended(step)[0]) :])}

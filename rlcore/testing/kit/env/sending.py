"""Rules about what is sent to an environment, and about waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, map_columns, take
from rlcore.env import BatchedEnv, StepBatch
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.env.play import (
    PATIENCE,
    Actions,
    Player,
    Recording,
    answer,
    copied_step,
    play,
    tracks_difference,
)
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.rules import describe

#: Seconds that poll is told to wait in vain, and after which it is given up.
TIMEOUT, GIVEN_UP = 0.05, 20.0

_FIX = "compare what is sent with the rows that wait for an action, and raise ValueError before anything is stepped"


def wrong_actions_are_refused(lab: EnvLab) -> Iterator[Fault]:
    """Actions for other rows than those that wait, or of another number, are a ValueError at once."""
    with lab.open(lab.seed) as env:
        lockstep = env.lockstep
    for what, spoil in _wrong_sends(lab, lockstep).items():
        with lab.open(lab.seed) as env:
            group, slots, actions = _first_answer(env, lab)
            said = _refusal(env, spoil(group, slots, actions))
            if said is None:
                yield Fault(f"{what} were taken without a word", _FIX)
            elif not isinstance(said, ValueError):
                yield Fault(f"{what} raised {describe(said)}", _FIX)
            elif what == "too few actions" and not all(str(n) in str(said) for n in (len(slots), len(slots) - 1)):
                yield Fault(
                    f"too few actions are refused without the numbers: {said}",
                    f"say how many were expected and how many came, {len(slots)} and {len(slots) - 1} here",
                )


def actions_are_awaited_once(lab: EnvLab) -> Iterator[Fault]:
    """Rows that were answered cannot be answered again before they have been handed over again."""
    with lab.open(lab.seed) as env:
        group, slots, actions = _first_answer(env, lab)
        env.send({group: (slots, actions)})
        said = _refusal(env, {group: (slots, actions)})
        if not isinstance(said, ValueError):
            outcome = "were taken without a word" if said is None else f"raised {describe(said)}"
            yield Fault(f"the same actions sent a second time {outcome}", _FIX)


def refused_actions_change_nothing(lab: EnvLab) -> Iterator[Fault]:
    """After a refusal the right actions are taken, and the episodes go on as if nothing had happened."""
    polls = min(len(lab.recording.polls), 20)
    with lab.open(lab.seed) as env:
        player, recording, refused = Player.of(env, lab.seed), Recording(), False
        for _ in range(polls):
            polled = {group: copied_step(step) for group, step in env.poll(PATIENCE).items()}
            recording.polls.append(polled)
            actions = player.answers(polled)
            for group, (slots, chosen) in actions.items():
                said = _refusal(env, {group: (slots + env.num_slots, chosen)})
                refused = refused or isinstance(said, ValueError)
                if said is None:
                    raise Untested("it refuses nothing")
            answer(env, actions)
    found = tracks_difference(recording.tracks(), lab.tracks)
    if found:
        yield Fault(
            f"after actions were refused the episodes went another way: {found}",
            "check everything that is sent before the first environment is stepped",
        )


def poll_times_out_and_loses_nothing(lab: EnvLab) -> Iterator[Fault]:
    """With all rows waiting, poll(timeout) raises TimeoutError; the actions that come then are taken."""
    assert lab.recording
    env = lab.build()
    env.reset(lab.seed)
    player, recording = Player.of(env, lab.seed), Recording()
    waiting: dict[str, StepBatch] = {}
    outcome: object = None
    while not isinstance(outcome, TimeoutError):
        outcome = _bounded(lambda: env.poll(TIMEOUT))
        if outcome is None:
            # Not closed: something in it hangs.
            yield Fault(
                f"poll({TIMEOUT}) with all rows waiting for actions did not return within {GIVEN_UP:g} s",
                "wait with the timeout, and raise TimeoutError when nothing will be ready",
            )
            return
        if isinstance(outcome, dict) and _moves_on(outcome, waiting):
            recording.polls.append(outcome)
        elif not isinstance(outcome, TimeoutError):
            env.close()
            got = describe(outcome) if isinstance(outcome, BaseException) else "handed over rows that were there before"
            yield Fault(
                f"poll({TIMEOUT}) with all rows waiting for actions {got if got[0] == 'h' else 'raised ' + got}",
                "raise TimeoutError when nothing is ready in time, never an empty result",
            )
            return
    for polled in recording.polls:
        answer(env, player.answers(polled))
    recording.polls += play(env, player, min(len(lab.recording.polls), 20)).polls
    env.close()
    found = tracks_difference(recording.tracks(), lab.tracks)
    if found:
        yield Fault(f"after a timeout rows were lost: {found}", "keep what is under way when poll times out")


def closes_twice(lab: EnvLab) -> Iterator[Fault]:
    """close() releases everything, before the first reset as well, and may be called twice."""
    assert lab.recording
    for reset in (False, True):
        env = lab.build()
        if reset:
            env.reset(lab.seed)
            play(env, Player.of(env, lab.seed), 3)
        for time in ("first", "second"):
            try:
                env.close()
            except Exception as error:
                yield Fault(f"the {time} close() raised {describe(error)}", "let close() do nothing where it is closed")
                return


def _wrong_sends(lab: EnvLab, lockstep: bool) -> dict[str, Callable[[str, NDArray[Any], Columns], Actions]]:
    nowhere = lab.num_envs
    sends: dict[str, Callable[[str, NDArray[Any], Columns], Actions]] = {
        "actions for a slot that does not exist": lambda g, s, a: {g: (np.append(s[:-1], nowhere), a)},
        "actions for a slot twice": lambda g, s, a: {g: (np.append(s, s[-1:]), _one_more(a))},
        "more actions than slots": lambda g, s, a: {g: (s, _one_more(a))},
        "actions for a group that does not exist": lambda g, s, a: {f"no {g}": (s, a)},
    }
    if lockstep and lab.num_envs > 1:
        sends["too few actions"] = lambda g, s, a: {g: (s[:-1], take(a, slice(0, len(s) - 1)))}
    return sends


def _one_more(actions: Columns) -> Columns:
    return map_columns(lambda array: np.concatenate([array, array[-1:]]), actions)


def _first_answer(env: BatchedEnv, lab: EnvLab) -> tuple[str, NDArray[Any], Columns]:
    """A group of the first poll, and what would answer it."""
    polled = {group: copied_step(step) for group, step in env.poll(PATIENCE).items()}
    group, (slots, actions) = next(iter(Player.of(env, lab.seed).answers(polled).items()))
    return group, slots, actions


def _refusal(env: BatchedEnv, actions: Actions) -> Exception | None:
    try:
        env.send(actions)
    except Exception as error:
        return error
    return None


def _moves_on(polled: dict[str, StepBatch], waiting: dict[str, StepBatch]) -> bool:
    """Whether rows were handed over that were not waiting already; they are added to ``waiting``."""
    new = False
    for group, step in polled.items():
        before = waiting.get(group)
        known = [] if before is None else list(zip(before.slot.tolist(), before.agent_id.tolist(), strict=True))
        rows = zip(step.slot.tolist(), step.agent_id.tolist(), strict=True)
        new = new or any(row not in known for row in rows)
        waiting[group] = step if before is None else _joined(before, step)
    return new


def _joined(one: StepBatch, two: StepBatch) -> StepBatch:
    joined = copied_step(two)
    joined.slot = np.concatenate([one.slot, two.slot])
    joined.agent_id = np.concatenate([one.agent_id, two.agent_id])
    return joined


def _bounded(call: Callable[[], dict[str, StepBatch]]) -> dict[str, StepBatch] | BaseException | None:
    """What ``call`` gives or raises, in a thread of its own; None where it does not come back."""
    outcome: list[dict[str, StepBatch] | BaseException] = []

    def run() -> None:
        try:
            outcome.append({group: copied_step(step) for group, step in call().items()})
        except BaseException as error:  # handed to whoever waits
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(GIVEN_UP)
    return outcome[0] if outcome else None

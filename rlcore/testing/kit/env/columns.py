"""Rules about what a poll hands over: its columns, their types, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import leaf_spaces
from rlcore.env import BatchedEnv, StepBatch
from rlcore.testing.environments.steps import elements
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.env.play import PATIENCE, Player, answer, copied_step, leaves_of, some
from rlcore.testing.kit.report import Fault
from rlcore.testing.kit.trees import array_leaves, difference, shared_with

_FLAGS = ("terminated", "truncated", "first", "needs_action", "episode_over")
_KINDS = {"slot": "iu", "agent_id": "iuU"}
_DTYPES = {"reward": np.float32, "env_step": np.int64, **dict.fromkeys(_FLAGS, np.bool_)}


def can_be_played(lab: EnvLab) -> Iterator[Fault]:
    """reset(seed), then poll() and send() in turn, run without an error."""
    assert lab.recording
    yield from ()


def says_what_it_is(lab: EnvLab) -> Iterator[Fault]:
    """It says its groups with their spaces, how many slots there are, its name, and whether they go in lockstep."""
    with lab.open_untried() as env:
        if env.num_slots != lab.num_envs:
            yield Fault(
                f"num_slots is {env.num_slots!r}, asked for were {lab.num_envs}",
                "make as many copies as num_envs says, and set num_slots to their number",
            )
        if not isinstance(env.name, str) or env.name in ("", BatchedEnv.name):
            yield Fault(f"name is {env.name!r}", "set name to what users call it: errors and results use it")
        if not isinstance(env.groups, dict) or not env.groups:
            yield Fault(
                f"groups is {env.groups!r}", "give {group name: (observation_space, action_space)}, one at least"
            )
            return
        for group, spaces in env.groups.items():
            if len(spaces) != 2 or not all(isinstance(space, gymnasium.Space) for space in spaces):
                yield Fault(f"groups['{group}'] is {spaces!r}", "give a pair of Gymnasium spaces of one agent")
        if not isinstance(env.lockstep, bool) or (env.lockstep and len(env.groups) != 1):
            yield Fault(
                f"lockstep is {env.lockstep!r} with {len(env.groups)} groups",
                "set it true only where one group with one agent hands over all slots in every poll",
            )


def columns_have_one_row_each(lab: EnvLab) -> Iterator[Fault]:
    """Every column has one entry a row, and final_obs one for each row that ended."""
    wrong: dict[str, str] = {}
    for number, _, step in _steps(lab):
        shape = np.shape(step.slot)
        if len(shape) != 1:
            wrong.setdefault("slot", f"slot has shape {shape} in poll {number}, expected [n]")
            continue
        for name in (*_DTYPES, "agent_id"):
            own = np.shape(getattr(step, name))
            if own != shape:
                wrong.setdefault(name, f"{name} has shape {own} in poll {number}, expected {shape} as slot has")
        for leaf, array in leaves_of(step.obs).items():
            if len(array) != shape[0]:
                name = _leaf("obs", leaf)
                wrong.setdefault(name, f"{name} has {len(array)} rows in poll {number}, expected {shape[0]}")
    for what in wrong.values():
        yield Fault(what, "give each column one entry for every row of the StepBatch, as arrays of shape [n]")


def columns_have_their_types(lab: EnvLab) -> Iterator[Fault]:
    """reward is float32, env_step int64, flags are bool, slots integers, agents integers or strings; all are arrays."""
    with lab.open(lab.seed) as env:
        polled = env.poll(PATIENCE)
        answer(env, Player.of(env, lab.seed).answers({group: copied_step(step) for group, step in polled.items()}))
        steps = [*polled.values(), *env.poll(PATIENCE).values()]
    wrong: dict[str, str] = {}
    for step in steps:
        for name in ("slot", "agent_id", *_DTYPES):
            column: Any = getattr(step, name)
            expected = np.dtype(_DTYPES[name]).name if name in _DTYPES else "integers"
            if not isinstance(column, np.ndarray):
                wrong[name] = f"{name} is a {type(column).__name__}, expected an array of {expected}"
            elif name in _DTYPES and column.dtype != _DTYPES[name]:
                wrong[name] = f"{name} is {column.dtype}, expected {expected}"
            elif name in _KINDS and column.dtype.kind not in _KINDS[name]:
                also = " or strings" * (name == "agent_id")
                wrong[name] = f"{name} is {column.dtype}, expected {expected}{also}"
    for what in wrong.values():
        yield Fault(what, "make the column an array of the type in the table of rlcore.env.StepBatch")


def polls_have_rows(lab: EnvLab) -> Iterator[Fault]:
    """A poll hands over something: slots that there are, each agent once, in lockstep all of them in order."""
    with lab.open() as env:
        slots, lockstep = env.num_slots, env.lockstep
    everyone = np.arange(slots)
    for number, polled in enumerate(lab.recording.polls):
        if not sum(len(step.slot) for step in polled.values()):
            yield Fault(f"poll {number} handed over no row", "wait until a row is ready, or raise TimeoutError")
            return
        for step in polled.values():
            if not ((step.slot >= 0) & (step.slot < slots)).all():
                have = some(step.slot.tolist())
                yield Fault(f"poll {number} has the slots {have}", f"number slots from 0 to {slots - 1}")
                return
            agents = list(zip(step.slot.tolist(), step.agent_id.tolist(), strict=False))
            if len(set(agents)) != len(agents):
                yield Fault(f"poll {number} has the same agent twice", "hand over one row for each slot and agent")
                return
            if lockstep and not np.array_equal(step.slot, everyone):
                yield Fault(
                    f"lockstep is true, but poll {number} handed over the slots {some(step.slot.tolist())}",
                    "hand over all slots in order in every poll, or leave lockstep false",
                )
                return


def observations_are_in_their_space(lab: EnvLab) -> Iterator[Fault]:
    """obs (of rows that wait for an action) and final_obs have shape and dtype of their space and lie in it."""
    with lab.open() as env:
        spaces = {group: leaf_spaces(own[0]) for group, own in env.groups.items()}
    wrong: dict[str, Fault] = {}
    for number, group, step in _steps(lab):
        meant = np.flatnonzero(step.needs_action)
        for column, rows in (("obs", meant), ("final_obs", None)):
            have = leaves_of(getattr(step, column))
            if have.keys() != spaces[group].keys():
                fix = "give every leaf of the space under its dotted name, and no other"
                what = f"{column} has the leaves {sorted(have)}, the space {sorted(spaces[group])}"
                wrong.setdefault(column, Fault(what, fix))
                continue
            for leaf, array in have.items():
                name = _leaf(column, leaf)
                outside = _outside(array if rows is None else array[rows], spaces[group][leaf])
                if outside and name not in wrong:
                    wrong[name] = Fault(
                        f"{name} {outside} in poll {number}", "hand over what the space promises, or widen the space"
                    )
    yield from wrong.values()


def _outside(array: NDArray[Any], space: gymnasium.Space[Any]) -> str | None:
    shape = space.shape or ()
    if array.shape[1:] != shape:
        return f"has rows of shape {array.shape[1:]}, expected {shape}"
    if array.dtype != space.dtype:
        return f"is {array.dtype}, expected {space.dtype}"
    for row in elements(array):
        if not space.contains(row):
            with np.printoptions(threshold=8, edgeitems=3, precision=5):
                return f"holds {' '.join(str(row).split())}, which is not in {space}"
    return None


def rewards_are_finite(lab: EnvLab) -> Iterator[Fault]:
    """Every reward is a finite number."""
    for number, _, step in _steps(lab):
        bad = np.flatnonzero(~np.isfinite(step.reward))
        if len(bad):
            yield Fault(
                f"the reward of slot {step.slot[bad[0]]} is {step.reward[bad[0]]} in poll {number}",
                "pay finite rewards, and raise where the simulation has failed",
            )
            return


def observations_have_memory_of_their_own(lab: EnvLab) -> Iterator[Fault]:
    """obs, final_obs and the rows of each do not share memory, and stay as they are until the next send or poll."""
    shared: set[str] = set()
    changed: str | None = None
    draws = lab.draws
    with lab.open(lab.seed) as env:
        player = Player.of(env, lab.seed)
        for _ in range(min(lab.polls, 100)):
            polled = env.poll(PATIENCE)
            copies = {group: copied_step(step) for group, step in polled.items()}
            for step in polled.values():
                obs = {_leaf("obs", leaf): array for leaf, array in leaves_of(step.obs).items()}
                final = {_leaf("final_obs", leaf): array for leaf, array in leaves_of(step.final_obs).items()}
                shared.update(f"{name} shares memory with obs" for name in shared_with(final, obs))
                overlaid = [name for name, array in {**obs, **final}.items() if _overlaid(array)]
                shared.update(f"the rows of {name} share memory" for name in overlaid)
            # A checkpoint or a video may be written between poll and send.
            env.get_state()
            if draws:
                env.render(0)
            changed = changed or _changed(polled, copies)
            answer(env, player.answers(copies))
    for what in sorted(shared):
        yield Fault(what, "copy one of them: the receiver may read both at any time before the next call")
    if changed:
        yield Fault(
            f"what was handed over changed before the next send: {changed}",
            "leave arrays that were handed over alone until the next send or poll, get_state and render included",
        )


def _overlaid(array: NDArray[Any]) -> bool:
    return len(array) > 1 and array.size > 0 and array.strides[0] == 0


def _changed(polled: dict[str, StepBatch], copies: dict[str, StepBatch]) -> str | None:
    for group, step in polled.items():
        for name in ("obs", "final_obs", "slot", "needs_action"):
            now, before = getattr(step, name), getattr(copies[group], name)
            found = difference(array_leaves({name: leaves_of(now)}), array_leaves({name: leaves_of(before)}))
            if found:
                return found
    return None


def _steps(lab: EnvLab) -> Iterator[tuple[int, str, StepBatch]]:
    for number, polled in enumerate(lab.recording.polls):
        for group, step in polled.items():
            yield number, group, step


def _leaf(column: str, leaf: str) -> str:
    return f"{column}.{leaf}" if leaf else column

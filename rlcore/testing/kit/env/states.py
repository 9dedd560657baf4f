"""Rules about an environment's state, and about the few other things that it may offer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore.env import StepBatch
from rlcore.errors import CheckpointError
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.env.play import (
    PATIENCE,
    Player,
    Recording,
    Row,
    Track,
    answer,
    copied_step,
    name_of,
    play,
    tracks_difference,
)
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import copied, difference, stored

#: Polls that are compared after a state was restored.
AFTER = 40


@dataclass
class Save:
    """A state taken after a poll, what had been handed over, and how the original went on."""

    state: dict[str, Any]
    before: Recording
    player: Player
    after: Recording

    def last_rows(self) -> dict[Track, Row]:
        """The rows of the last poll before the state was taken."""
        return {track: rows[0] for track, rows in Recording(self.before.polls[-1:]).tracks().items()}


def states_can_be_stored(lab: EnvLab) -> Iterator[Fault]:
    """get_state() gives None or what a checkpoint can hold: dicts, arrays, numbers and strings."""
    with lab.open(lab.seed) as env:
        play(env, Player.of(env, lab.seed), 5)
        state: Any = env.get_state()
    if state is None:
        raise Untested(_NO_STATE)
    if not isinstance(state, dict):
        yield Fault(f"get_state() gave a {type(state).__name__}", "give a dict, or None where there is no state")
        return
    try:
        stored(state)
    except CheckpointError as error:
        yield Fault(f"get_state() cannot be stored: {error}", "make it of dicts, arrays, numbers and strings only")


def states_are_copies(lab: EnvLab) -> Iterator[Fault]:
    """A state does not change when the environment goes on, nor when it is restored from."""
    with lab.open(lab.seed) as env:
        player = Player.of(env, lab.seed)
        recording = play(env, player, 5)
        state = _state(env.get_state())
        kept = copied(state)
        answer(env, player.answers(recording.polls[-1]))
        play(env, player, 10)
        found = difference(state, kept)
        if found:
            yield Fault(f"a state changed while the environment went on: {found}", "copy arrays in get_state()")
            return
        env.set_state(state)
        play(env, player, 10)
        found = difference(state, kept)
        if found:
            yield Fault(
                f"a state changed while an environment that was restored from it went on: {found}",
                "copy arrays in set_state()",
            )


def states_show_waiting_rows_again(lab: EnvLab) -> Iterator[Fault]:
    """After set_state() the next poll hands over what waited for actions, without the transition that led to it."""
    for save in _saves(lab):
        with lab.open() as env:
            lost = _restore(env, save)
            if problem := _wrong_restarts(lost, lab.num_envs):
                yield problem
                return
            shown = Recording([{g: copied_step(step) for g, step in env.poll(PATIENCE).items()}]).tracks()
        for track, row in save.last_rows().items():
            again = shown[track][0] if track in shown else None
            fault = _restarted(track, again) if track[1] in lost else _as_it_stood(track, row, again)
            if fault:
                yield fault
                return


def _restarted(track: Track, row: Row | None) -> Fault | None:
    if row is None or row.first:
        return None
    return Fault(f"{name_of(track)} was restarted, but its row is not first", "set first in restarted slots")


def _as_it_stood(track: Track, before: Row, again: Row | None) -> Fault | None:
    """What is wrong with ``again``, handed over after a restoration, where ``before`` had been handed over last."""
    if again is not None and (again.reward or again.ended or again.episode_over):
        return Fault(
            f"the first poll after set_state() repeats the transition of {name_of(track)}",
            "give reward 0 and no flags there: that transition was handed over before the state was taken",
        )
    if not before.needs_action:
        return None
    if again is None or not again.needs_action:
        found: str | None = "it waits for no action"
    else:
        have, expected = ({"obs": r.obs, "first": r.first, "env_step": r.env_step} for r in (again, before))
        found = difference(have, expected)
    if not found:
        return None
    return Fault(
        f"after set_state() {name_of(track)} is not handed over as it stood: {found}",
        "hand over the rows that waited for actions again, with the same obs, first and env_step",
    )


def states_go_on_exactly(lab: EnvLab) -> Iterator[Fault]:
    """A new environment restored from a stored state goes on as the old one did, but for the slots it lists."""
    for save in _saves(lab):
        with lab.open() as env:
            lost = _restore(env, save)
            if len(set(lost)) == lab.num_envs:
                raise Untested("all slots are restarted instead of being restored")
            tracks = play(env, save.player.fork(), AFTER).tracks()
        # What waited is handed over once more, which another rule is about; what follows is compared.
        have = {track: _without_repeated(rows, save.last_rows().get(track)) for track, rows in tracks.items()}
        have = {track: rows for track, rows in have.items() if track[1] not in lost}
        expected = {track: rows for track, rows in save.after.tracks().items() if track[1] not in lost}
        have = {track: rows for track, rows in have.items() if rows and track in expected}
        expected = {track: rows for track, rows in expected.items() if track in have}
        found = tracks_difference(have, expected)
        if found:
            yield Fault(
                f"restored from a state taken in poll {len(save.before.polls)} it goes another way: {found}",
                "put everything that the future depends on into the state, generators included; list in what "
                "set_state() returns the slots for which that cannot be done",
            )
            return


def a_state_may_be_asked_for_before_reset(lab: EnvLab) -> Iterator[Fault]:
    """get_state() before the first reset gives None or a tree."""
    with lab.open() as env:
        state: Any = env.get_state()
    if state is not None and not isinstance(state, dict):
        yield Fault(f"get_state() before reset gave a {type(state).__name__}", "give a dict, or None")


def frames_are_images(lab: EnvLab) -> Iterator[Fault]:
    """render(slot) gives None, or an image [height, width, 3] of uint8."""
    with lab.open(lab.seed) as env:
        env.poll(PATIENCE)
        frame: Any = env.render(0)
    if frame is None:
        raise Untested("it draws nothing as it was built")
    shape, dtype = np.shape(frame), getattr(frame, "dtype", type(frame).__name__)
    if len(shape) != 3 or shape[-1] != 3 or dtype != np.uint8:
        yield Fault(f"render() gave {dtype} of shape {shape}", "give an array [height, width, 3] of uint8, or None")


_NO_STATE = "get_state() gives None: a run that goes on restarts its episodes"


def _state(state: dict[str, Any] | None) -> dict[str, Any]:
    if state is None:
        raise Untested(_NO_STATE)
    try:
        stored(state)
    except CheckpointError as error:
        raise Untested("get_state() gives what cannot be stored") from error
    return state


def _saves(lab: EnvLab) -> Iterator[Save]:
    """States taken after the first poll, after some, and after one in which an episode ended."""
    ended = next((n for n, polled in enumerate(lab.recording.polls) if n > 5 and _any_ended(polled)), None)
    for polls in (1, 5) if ended is None else (1, 5, ended + 1):
        with lab.open(lab.seed) as env:
            player = Player.of(env, lab.seed)
            before = play(env, player, polls)
            state = _state(env.get_state())
            after = player.fork()
            answer(env, after.answers(before.polls[-1]))
            yield Save(state, before, player, play(env, after, AFTER))


def _without_repeated(rows: list[Row], before: Row | None) -> list[Row]:
    """The rows after a restoration without the one that shows again what was handed over last, ``before``."""
    repeated = before is not None and (before.needs_action or not (rows[0].needs_action or rows[0].ended))
    return rows[1:] if repeated else rows


def _any_ended(polled: dict[str, StepBatch]) -> bool:
    return any(bool((np.asarray(step.terminated) | np.asarray(step.truncated)).any()) for step in polled.values())


def _restore(env: Any, save: Save) -> list[int]:
    lost: list[int] = env.set_state(stored(save.state))
    return lost


def _wrong_restarts(lost: Any, slots: int) -> Fault | None:
    if isinstance(lost, list) and len(set(lost)) == len(lost) and all(slot in range(slots) for slot in lost):
        return None
    return Fault(
        f"set_state() returned {lost!r}", "return the list of the slots that were reset instead of being restored"
    )

"""Rules about slots that nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
    tracks_difference,
)
from rlcore.testing.kit.report import Fault, Untested

#: Polls that are looked at after slots were told to rest.
_POLLS = 40


def resting_slots_stand_still(lab: EnvLab) -> Iterator[Fault]:
    """Slots that rest need no action and tell of no transition; the others go on as ever, and reset wakes all."""
    if lab.num_envs < 2:
        raise Untested("there is one slot")
    with lab.open(lab.seed) as env:
        player, recording = Player.of(env, lab.seed), Recording()
        resting: set[int] = set()
        asked = np.array([lab.num_envs - 1])
        for number in range(min(len(lab.recording.polls), _POLLS)):
            polled = {group: copied_step(step) for group, step in env.poll(PATIENCE).items()}
            recording.polls.append(polled)
            if number == 0:
                resting = set(np.asarray(env.rest(asked)).tolist())
            answer(env, player.answers(polled))
        if resting - set(asked.tolist()):
            yield Fault(f"rest({asked.tolist()}) says that {sorted(resting)} rest", "say only those that were named")
            return
        own = recording.tracks()
        still = {track: own.pop(track)[1:] for track in list(own) if track[1] in resting}
        for track, rows in still.items():
            for row in rows:
                if row.needs_action or row.reward or row.ended or row.episode_over:
                    yield Fault(
                        f"{name_of(track)} rests, but its row of poll {row.poll} needs an action or tells of something",
                        "hand its rows over with needs_action false, reward 0 and no flags, or let rest() leave it out",
                    )
                    return
        found = _difference(own, lab.tracks)
        if found:
            yield Fault(f"after rest({asked.tolist()}) other slots went another way: {found}", "let them go on as ever")
            return
        if not resting:
            # Nobody is to be woken, and not every environment begins anew when it is told to.
            return
        env.reset(lab.seed)
        again = {group: copied_step(step) for group, step in env.poll(PATIENCE).items()}
        found = _difference(Recording([again]).tracks(), lab.tracks)
        if found:
            yield Fault(f"slots that rested did not begin with a reset: {found}", "let reset wake them")


def _difference(have: dict[Track, list[Row]], expected: dict[Track, list[Row]]) -> str | None:
    """Where agents that both have were handed over something else: few polls need not show all of them."""
    return tracks_difference(have, {track: rows for track, rows in expected.items() if track in have})

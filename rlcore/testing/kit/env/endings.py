"""Rules about how episodes begin and end, as the agents' rows follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.env.play import Row, Track, leaves_of, name_of
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import difference


def reset_opens_every_slot(lab: EnvLab) -> Iterator[Fault]:
    """After reset() every slot is handed over, each agent's first row with ``first`` set and no transition before."""
    seen = {slot for _, slot, _ in lab.tracks}
    missing = sorted(set(range(lab.num_envs)) - seen)
    if missing:
        yield Fault(f"slots {missing} were never handed over", "start an episode in every slot in reset()")
    for track, rows in lab.tracks.items():
        if not rows[0].first or rows[0].ended:
            state = "ends an episode" if rows[0].ended else "is not first"
            yield Fault(
                f"the row of {name_of(track)} after reset() {state}",
                "set first, and neither terminated nor truncated, in an agent's first row",
            )
            return


def endings_have_final_observations(lab: EnvLab) -> Iterator[Fault]:
    """final_obs has exactly one row for each row that terminated or was truncated."""
    lab.require_endings()
    for number, polled in enumerate(lab.recording.polls):
        for step in polled.values():
            ended = int(np.count_nonzero(np.asarray(step.terminated) | np.asarray(step.truncated)))
            for leaf, array in leaves_of(step.final_obs).items():
                if len(array) != ended:
                    name = f"final_obs.{leaf}" if leaf else "final_obs"
                    yield Fault(
                        f"{name} has {len(array)} rows in poll {number}, in which {ended} rows ended",
                        "put the true last observation of each row that ended into final_obs, in the order of the rows",
                    )
                    return


def final_observations_are_not_those_of_the_reset(lab: EnvLab) -> Iterator[Fault]:
    """The last observation of an episode is what the last transition led to, not what the next episode opens with."""
    pairs = [
        (row.final, following.obs)
        for rows in lab.ended_tracks().values()
        for i, row in enumerate(rows)
        if row.final is not None and (following := _opening(rows, i)) is not None
    ]
    if not pairs:
        raise Untested("no episode opened after an ending")
    observations = [row.obs for rows in lab.tracks.values() for row in rows if row.needs_action]
    if all(difference(one, observations[0]) is None for one in observations):
        raise Untested("all observations are the same")
    if all(difference(final, opening) is None for final, opening in pairs):
        yield Fault(
            f"final_obs is the next episode's first observation in all of {len(pairs)} endings",
            "take the observation that the last step returned, and copy it before the reset overwrites it",
        )


def an_episode_opens_after_each_ending(lab: EnvLab) -> Iterator[Fault]:
    """After a row that ends, that same row or the agent's next one is ``first``; no other row is."""
    faults: dict[str, Fault] = {}
    for track, rows in lab.tracks.items():
        for i in range(1, len(rows)):
            before, row = rows[i - 1], rows[i]
            awaited = before.ended and not before.first
            if awaited and not row.first:
                faults.setdefault(
                    "missing",
                    Fault(
                        f"{name_of(track)} ended in poll {before.poll}, and its next row is not first",
                        "set first in the row whose obs opens the new episode",
                    ),
                )
            if row.first and not awaited and not row.ended:
                faults.setdefault(
                    "idle",
                    Fault(
                        f"{name_of(track)} is first in poll {row.poll}, but no episode of its ended before",
                        "end episodes with terminated or truncated, and set first nowhere else",
                    ),
                )
    yield from faults.values()


def ended_agents_are_not_asked_to_act(lab: EnvLab) -> Iterator[Fault]:
    """A row that ends an episode waits for an action only where its obs opens the next one."""
    for track, rows in lab.ended_tracks().items():
        for row in rows:
            if row.ended and row.needs_action and not row.first:
                yield Fault(
                    f"{name_of(track)} ended in poll {row.poll} and waits for an action that nothing can come of",
                    "set needs_action to false there, or set first and give the new episode's observation",
                )
                return


def nothing_is_paid_before_the_first_action(lab: EnvLab) -> Iterator[Fault]:
    """A row that opens an episode and ends none has reward 0: no transition led to it."""
    for track, rows in lab.tracks.items():
        for row in rows:
            if row.first and not row.ended and row.reward != 0.0:
                yield Fault(
                    f"{name_of(track)} is paid {row.reward:g} in poll {row.poll} with its episode's first observation",
                    "give 0 where an episode opens; what the last episode earned belongs in the row that ended it",
                )
                return


def episode_over_is_set_where_episodes_end(lab: EnvLab) -> Iterator[Fault]:
    """episode_over is set in all rows of a slot in the poll in which its last agent ends, and in no others."""
    tracks = lab.ended_tracks()
    lone = len({track[0::2] for track in tracks}) == 1
    alive: dict[int, set[Any]] = {}
    for number, rows in _by_poll_and_slot(tracks):
        slot = rows[0][0][1]
        acting = alive.setdefault(slot, set())
        acting -= {track for track, row in rows if row.ended}
        over = {row.episode_over for _, row in rows}
        ended = any(row.ended for _, row in rows)
        if len(over) > 1:
            yield Fault(
                f"slot {slot} has rows with and without episode_over in poll {number}",
                "set it in every row of the slot",
            )
            return
        if over == {True} and (acting or not ended):
            still = f"{len(acting)} agents have not ended" if acting else "no agent ended"
            yield Fault(
                f"episode_over is set for slot {slot} in poll {number}, but {still}",
                "end every agent with terminated or truncated before or with the end of the episode",
            )
            return
        # Where there are several agents, one more may still arrive.
        if over == {False} and ended and lone:
            yield Fault(
                f"the agent of slot {slot} has ended in poll {number}, but episode_over is not set",
                "set it in every row of the slot in the poll in which its episode ends",
            )
            return
        acting |= {track for track, row in rows if row.needs_action}


def env_step_counts_the_steps_of_an_episode(lab: EnvLab) -> Iterator[Fault]:
    """env_step is 0 where a lone agent's episode opens, and grows with each of its observations, by 1 in lockstep."""
    with lab.open() as env:
        lone, lockstep = len(env.groups) == 1 and len({track[2] for track in lab.tracks}) == 1, env.lockstep
    for track, rows in lab.tracks.items():
        asked = [row for row in rows if row.needs_action]
        for i, row in enumerate(asked):
            before = asked[i - 1].env_step
            wrong = (
                (row.env_step != 0 if lone else row.env_step < 0)
                if row.first
                else (row.env_step != before + 1 if lone and lockstep else row.env_step <= before)
            )
            if wrong:
                at = "as its episode opens" if row.first else f"after {before}"
                yield Fault(
                    f"env_step of {name_of(track)} is {row.env_step} {at} in poll {row.poll}",
                    "count the environment's steps of the running episode, from 0 at its first observation",
                )
                return


def _opening(rows: list[Row], ending: int) -> Row | None:
    """The row whose observation opens the episode after the one that ended at ``ending``."""
    if rows[ending].first:
        return rows[ending]
    return rows[ending + 1] if ending + 1 < len(rows) and rows[ending + 1].first else None


def _by_poll_and_slot(tracks: dict[Track, list[Row]]) -> Iterator[tuple[int, list[tuple[Track, Row]]]]:
    table: dict[tuple[int, int], list[tuple[Track, Row]]] = {}
    for track, rows in tracks.items():
        for row in rows:
            table.setdefault((row.poll, track[1]), []).append((track, row))
    for (poll, _), found in sorted(table.items(), key=lambda item: item[0]):
        yield poll, found

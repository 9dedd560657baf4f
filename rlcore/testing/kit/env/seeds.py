"""Rules about seeds: what they repeat, and what they keep apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.env.play import Player, Row, Track, play, tracks_difference
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import difference

#: Polls after which two slots or seeds that were to differ are taken for equal.
POLLS = 60


def seeds_repeat(lab: EnvLab) -> Iterator[Fault]:
    """The same seed and the same actions give the same rows, in a new environment and in one that was used before."""
    polls = len(lab.recording.polls)
    again = lab.record(lab.seed, polls)
    found = tracks_difference(again.tracks(), lab.tracks)
    if found:
        yield Fault(
            f"a second environment with the same seed goes another way: {found}",
            "draw everything random from generators that reset(seed) seeds, and from nothing else",
        )
        return
    with lab.open(lab.seed + 1) as env:
        play(env, Player.of(env, lab.seed), POLLS)
        env.reset(lab.seed)
        found = tracks_difference(play(env, Player.of(env, lab.seed), polls).tracks(), lab.tracks)
    if found:
        yield Fault(
            f"reset(seed) of an environment that was used before goes another way: {found}",
            "make reset(seed) forget everything that went before, counters and half-done episodes included",
        )


def seeds_and_slots_differ(lab: EnvLab) -> Iterator[Fault]:
    """Another seed gives other episodes, and no two slots play the same ones."""
    assert lab.recording
    one, other = (lab.record(seed, POLLS, alike=True).tracks() for seed in (lab.seed, lab.seed + 1))
    if tracks_difference(one, other) is None:
        unseeded = [lab.record(None, POLLS, alike=True).tracks() for _ in range(2)]
        if tracks_difference(*unseeded) is None:
            raise Untested("it plays the same under every seed: nothing in it is random")
        yield Fault(
            f"seeds {lab.seed} and {lab.seed + 1} give the same episodes, though without a seed they are random",
            "seed every generator from the seed that reset is given",
        )
    slots = _by_slot(one)
    same = [pair for pair in combinations(slots, 2) if _difference(slots[pair[0]], slots[pair[1]]) is None]
    if same:
        pairs = ", ".join(f"{a} and {b}" for a, b in same)
        yield Fault(
            f"slots {pairs} play the same episodes for the same actions",
            "derive a seed of its own for each slot from the seed of reset, with numpy.random.SeedSequence.spawn",
        )


def reset_needs_no_seed(lab: EnvLab) -> Iterator[Fault]:
    """reset(None) starts an episode in every slot, also in the middle of others."""
    with lab.open() as env:
        env.reset(None)
        play(env, Player.of(env, lab.seed), 5)
        env.reset(None)
        tracks = play(env, Player.of(env, lab.seed), 30).tracks()
    late = sorted({slot for (_, slot, _), rows in tracks.items() if not rows[0].first})
    if late or len({slot for _, slot, _ in tracks}) != lab.num_envs:
        yield Fault(
            f"after reset(None) in the middle of episodes slots {late or 'that are missing'} did not start anew",
            "drop the episodes that are under way in reset(), whatever the seed",
        )


def _by_slot(tracks: dict[Track, list[Row]]) -> dict[int, dict[tuple[str, object], list[Row]]]:
    slots: dict[int, dict[tuple[str, object], list[Row]]] = {}
    for (group, slot, agent), rows in tracks.items():
        slots.setdefault(slot, {})[group, agent] = rows
    return slots


def _difference(one: dict[tuple[str, object], list[Row]], two: dict[tuple[str, object], list[Row]]) -> str | None:
    if one.keys() != two.keys():
        return "other agents"
    for key, rows in one.items():
        for a, b in zip(rows, two[key], strict=False):
            found = difference(a.tree(), b.tree())
            if found:
                return found
    return None

"""Playing a BatchedEnv with random actions, and what it handed over: poll by poll, and agent by agent."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import is_mask
from rlcore.columns import Array, Columns, leaf_spaces
from rlcore.env import BatchedEnv, StepBatch
from rlcore.errors import EnvError
from rlcore.testing.environments.masks import Flags, flags, legal_sample
from rlcore.testing.kit.trees import difference

#: Seconds that an environment may take to have something ready.
PATIENCE = 60.0

COLUMNS = tuple(column.name for column in fields(StepBatch))
#: ``(group, slot, agent_id)``
Track = tuple[str, int, Any]
Actions = dict[str, tuple[NDArray[Any], Columns]]


def leaves_of(value: Columns) -> dict[str, Array]:
    """The leaves of observations or actions by name; those of a plain space under ``""``."""
    return value if isinstance(value, dict) else {"": value}


def copied_step(step: StepBatch) -> StepBatch:
    """A copy of everything that was handed over, whatever type it is of."""
    columns: dict[str, Any] = {
        name: {leaf: np.array(array) for leaf, array in value.items()} if isinstance(value, dict) else np.array(value)
        for name in COLUMNS
        for value in [getattr(step, name)]
    }
    return StepBatch(**columns)


class Row(NamedTuple):
    """One agent's row of one poll. ``final`` is the last observation of an episode that ended with it, else None."""

    poll: int
    reward: float
    terminated: bool
    truncated: bool
    final: dict[str, Array] | None
    obs: dict[str, Array]
    first: bool
    needs_action: bool
    env_step: int
    episode_over: bool

    @property
    def ended(self) -> bool:
        """Whether the transition ended the agent's episode."""
        return self.terminated or self.truncated

    def tree(self) -> dict[str, Any]:
        """All that has to be repeated; an observation that means nothing is left out."""
        tree = {name: value for name, value in self._asdict().items() if name not in ("poll", "obs", "final")}
        if self.final is not None:
            tree["final_obs"] = self.final
        return tree | {"obs": self.obs} if self.needs_action else tree


@dataclass
class Player:
    """Answers every row that waits for an action, by nothing but seed, slot, agent and turn.

    So the same actions meet the same environment in whatever order its rows are handed over. With ``alike`` all slots
    get the same actions.
    """

    spaces: dict[str, gymnasium.Space[Any]]
    seed: int
    alike: bool = False
    turns: dict[Track, int] = field(default_factory=dict)

    @classmethod
    def of(cls, env: BatchedEnv, seed: int, alike: bool = False) -> Player:
        """One for ``env``. The spaces are copied: an environment may draw from its own."""
        return cls({group: copy.deepcopy(spaces[1]) for group, spaces in env.groups.items()}, seed, alike)

    def fork(self) -> Player:
        """One that goes on as this one would."""
        return Player(copy.deepcopy(self.spaces), self.seed, self.alike, dict(self.turns))

    def answers(self, polled: dict[str, StepBatch]) -> Actions:
        """``{group: (slots, actions)}`` for the rows that wait; groups without any are left out."""
        unknown = polled.keys() - self.spaces.keys()
        if unknown:
            raise EnvError(
                f"poll() handed over group {', '.join(sorted(unknown))}, there are: {', '.join(self.spaces)}"
            )
        sent: Actions = {}
        for group, step in polled.items():
            rows = np.flatnonzero(np.asarray(step.needs_action, np.bool_))
            if len(rows):
                sent[group] = (np.asarray(step.slot)[rows], self._actions(group, step, rows))
        return sent

    def _actions(self, group: str, step: StepBatch, rows: NDArray[np.int64]) -> Columns:
        spaces = leaf_spaces(self.spaces[group])
        obs = leaves_of(step.obs)
        masked = any(map(is_mask, obs))
        columns: dict[str, list[Any]] = {leaf: [] for leaf in spaces}
        for row in rows.tolist():
            slot, agent = int(step.slot[row]), np.asarray(step.agent_id)[row].item()
            turn = self.turns.get((group, slot, agent), 0)
            self.turns[group, slot, agent] = turn + 1
            code = zlib.crc32(repr((group, agent)).encode())
            seeds = np.random.SeedSequence([self.seed, 0 if self.alike else slot + 1, code, turn])
            allowed: Flags = flags({leaf: array[row] for leaf, array in obs.items()}, spaces) if masked else {}
            for (leaf, space), own in zip(spaces.items(), seeds.generate_state(len(spaces)), strict=True):
                columns[leaf].append(_sample(space, int(own), allowed.get(leaf)))
        stacked = {leaf: np.stack(values) for leaf, values in columns.items()}
        return stacked[""] if set(stacked) == {""} else stacked


def _sample(space: gymnasium.Space[Any], seed: int, allowed: list[NDArray[np.bool_]] | None) -> Any:
    if allowed:
        return legal_sample(space, allowed, np.random.default_rng(seed))
    space.seed(seed)
    return space.sample()


@dataclass
class Recording:
    """What an environment handed over, poll by poll."""

    polls: list[dict[str, StepBatch]] = field(default_factory=list)

    def tracks(self) -> dict[Track, list[Row]]:
        """The rows by agent, in the order of the polls. Columns have to be of one length."""
        tracks: dict[Track, list[Row]] = {}
        for number, polled in enumerate(self.polls):
            for group, step in polled.items():
                for (slot, agent), row in _rows(step, number):
                    tracks.setdefault((group, slot, agent), []).append(row)
        return tracks

    @property
    def endings(self) -> int:
        """How many rows end an agent's episode."""
        return sum(
            int(np.count_nonzero(np.asarray(step.terminated) | np.asarray(step.truncated)))
            for polled in self.polls
            for step in polled.values()
        )


def _rows(step: StepBatch, poll: int) -> list[tuple[tuple[int, Any], Row]]:
    ended = np.asarray(step.terminated) | np.asarray(step.truncated)
    rows, ends = [], 0
    for i in range(len(step.slot)):
        final = {leaf: array[ends] for leaf, array in leaves_of(step.final_obs).items()} if ended[i] else None
        ends += bool(ended[i])
        row = Row(
            poll,
            float(step.reward[i]),
            bool(step.terminated[i]),
            bool(step.truncated[i]),
            final,
            {leaf: array[i] for leaf, array in leaves_of(step.obs).items()},
            bool(step.first[i]),
            bool(step.needs_action[i]),
            int(step.env_step[i]),
            bool(step.episode_over[i]),
        )
        rows.append(((int(step.slot[i]), step.agent_id[i].item()), row))
    return rows


def play(env: BatchedEnv, player: Player, polls: int, enough_endings: int | None = None, least: int = 60) -> Recording:
    """Polls and answers; stops earlier where ``enough_endings`` were seen in at least ``least`` polls.

    The last poll is left unanswered.
    """
    recording = Recording()
    while True:
        polled = {group: copied_step(step) for group, step in env.poll(PATIENCE).items()}
        recording.polls.append(polled)
        done = len(recording.polls)
        if done >= polls:
            return recording
        if enough_endings is not None and done >= least and recording.endings >= enough_endings:
            return recording
        answer(env, player.answers(polled))


def answer(env: BatchedEnv, actions: Actions) -> None:
    """Sends actions group by group, as the caller's loop of the contract does."""
    for group, (slots, chosen) in actions.items():
        env.send({group: (slots, chosen)})


def tracks_difference(have: dict[Track, list[Row]], expected: dict[Track, list[Row]]) -> str | None:
    """Where the same agents were handed over something else; None where all of what both have is equal.

    Recordings may end at different places where an environment hands over whatever is ready.
    """
    if have.keys() != expected.keys():
        odd = sorted(have.keys() ^ expected.keys(), key=str)
        return f"other agents were handed over: {', '.join(map(name_of, odd[:3]))}"
    for track, rows in have.items():
        for number, (one, two) in enumerate(zip(rows, expected[track], strict=False)):
            found = difference(one.tree(), two.tree())
            if found:
                return f"{name_of(track)}, row {number}: {found}"
    return None


def name_of(track: Track) -> str:
    """``"slot 1"``, with the agent where it has a name."""
    group, slot, agent = track
    return f"slot {slot}" if agent == 0 else f"slot {slot}, agent {agent!r} of group '{group}'"


def some(items: Sequence[Any], limit: int = 5) -> str:
    """The items, the first of many."""
    shown = ", ".join(str(item) for item in items[:limit])
    return shown + (f", ... ({len(items)} in all)" if len(items) > limit else "")

"""Acts and outcomes as they came, and the batches that are cut from them once a fragment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import (
    AGENT_ID,
    BOOTSTRAP,
    ENV_STEP,
    EPS_ID,
    LAST_OBS,
    LAST_STATE,
    LENGTH,
    OBS,
    POLICY_VERSION,
    SLOT,
    START,
    STATE_IN,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
)
from rlcore.columns import from_table, to_table
from rlcore.errors import BadValueError
from rlcore.sampling.agents import AgentTable
from rlcore.sampling.episode import EpisodeBook
from rlcore.sampling.pieces import find_pieces
from rlcore.sampling.role import Role

Table = dict[str, NDArray[Any]]

# Columns of the log that do not reach a batch.
TRACK = "track"
NUMBER = "number"
LIVE = "live"
VERSION = "version"


class Log:
    """By policy, three lists of tables: acts, outcomes, and the observations in which episodes ended.

    One that is not ``recording`` forgets whatever it is told.
    """

    def __init__(self, recording: bool = True) -> None:
        self.recording = recording
        self._acts: dict[str, list[Table]] = {}
        self._outcomes: dict[str, list[Table]] = {}
        self._finals: dict[str, list[Table]] = {}

    def act(self, policy_id: str, table: Table) -> None:
        """Actions that were taken: one row a track."""
        if self.recording:
            self._acts.setdefault(policy_id, []).append(table)

    def outcome(self, policy_id: str, table: Table, final: Table) -> None:
        """Transitions that closed, and where those that ended did."""
        if not self.recording:
            return
        self._outcomes.setdefault(policy_id, []).append(table)
        if len(final[TRACK]):
            self._finals.setdefault(policy_id, []).append(final)

    def break_off(self, policy_id: str, track: int, whole: bool) -> bool:
        """Takes back the open act of ``track``, whose step did not happen, and cuts its episode off before it.

        With ``whole`` none of the episode's rows counts any more. False where the last row that counts is in no log
        any more.
        """
        if not self.recording:
            return True
        acts = self._acts[policy_id]
        place, row = _last_of(acts, track)
        act = {name: column[row : row + 1] for name, column in acts[place].items()}
        acts[place] = {name: np.delete(column, row, axis=0) for name, column in acts[place].items()}
        if whole:
            for table in acts:
                table[LIVE] = table[LIVE] & ~((table[TRACK] == track) & (table[NUMBER] == act[NUMBER][0]))
            return True
        outcomes = self._outcomes.get(policy_id, [])
        place, row = _last_of(outcomes, track)
        if place < 0 or outcomes[place][TERMINATED][row] or outcomes[place][TRUNCATED][row]:
            return False
        outcomes[place][TRUNCATED][row] = True
        self._finals.setdefault(policy_id, []).append(_successor(act))
        return True

    def cut(
        self,
        roles: list[Role],
        tracks: Any,
        agents: AgentTable,
        book: EpisodeBook,
        waiting: Mapping[str, list[Table]],
        env_name: str,
    ) -> tuple[dict[str, SampleBatch], ByAgent | None, Log]:
        """Batches by policy, the same by agent where there are several, and a log of the acts that are still open."""
        batches: dict[str, SampleBatch] = {}
        rest = Log()
        for role in roles:
            if role.policy_id not in self._acts:
                continue
            acts = _stack(self._acts[role.policy_id])
            is_open = _open_rows(acts[TRACK], tracks.pending)
            rest_table = {name: column[is_open] for name, column in acts.items()}
            if is_open.any():
                rest.act(role.policy_id, rest_table)
            if is_open.all():
                continue
            successors = _stack([_successor(rest_table), *waiting.get(role.policy_id, [])])
            batch = self._cut_policy(
                role,
                {name: column[~is_open] for name, column in acts.items()},
                successors,
                agents,
                book,
                env_name,
            )
            batches[role.policy_id] = batch
        return batches, ByAgent(batches) if len(agents.ids) > 1 else None, rest

    def _cut_policy(
        self, role: Role, acts: Table, successors: Table, agents: AgentTable, book: EpisodeBook, env_name: str
    ) -> SampleBatch:
        slots = len(book.number)
        rows = _sorted(acts, slots)
        outcomes = _sorted(_stack(self._outcomes[role.policy_id]), slots)
        rows.update({name: column for name, column in outcomes.items() if name != TRACK})
        finals = self._finals.get(role.policy_id)
        endings = _sorted(_stack(finals), slots) if finals else None
        ended = rows[TERMINATED] | rows[TRUNCATED]
        live = rows.pop(LIVE)
        if endings is not None:
            kept_endings = live[ended]
            endings = {name: column[kept_endings] for name, column in endings.items()}
        rows = {name: column[live] for name, column in rows.items()}
        ended = ended[live]
        track, number, version = rows.pop(TRACK), rows.pop(NUMBER), rows.pop(VERSION)
        starts, sizes, last = find_pieces(track, ended)
        after = _after(track[last], ended[last], successors, endings, agents, slots, env_name)
        raw_obs = from_table(OBS, rows)
        rows.update(to_table(OBS, role.take_in(raw_obs, track % slots, rows[ENV_STEP])))
        role.observe(raw_obs)
        state_in = {name: rows.pop(name)[starts] for name in list(rows) if name.startswith(STATE_IN + ".")}
        slot = track[starts] % slots
        cuts: Table = {
            START: starts,
            LENGTH: sizes,
            SLOT: slot.astype(np.int32),
            AGENT_ID: np.array(agents.ids)[track[starts] // slots],
            EPS_ID: book.eps_id(slot, number[starts]),
            # The oldest weights that acted in the piece: an act may have waited while newer ones came.
            POLICY_VERSION: version[starts],
            BOOTSTRAP: ~rows[TERMINATED][last],
            **to_table(LAST_OBS, role.take_in(from_table(OBS, after), slot, rows[ENV_STEP][last] + 1)),
            **state_in,
            **{LAST_STATE + name.removeprefix(STATE_IN): after[name] for name in state_in},
        }
        return SampleBatch(rows, cuts)

    def forget(self, tracks: NDArray[np.int64]) -> None:
        """Drops the acts of ``tracks``."""
        for tables in self._acts.values():
            for i, table in enumerate(tables):
                keep = ~np.isin(table[TRACK], tracks)
                tables[i] = {name: column[keep] for name, column in table.items()}

    def get_state(self) -> dict[str, Any]:
        """The acts that are open; a log between two fragments holds nothing else."""
        return {policy_id: _stack(tables) for policy_id, tables in self._acts.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._acts = {policy_id: [dict(table)] for policy_id, table in state.items()}


class ByAgent(Mapping[Any, tuple[str, SampleBatch]]):
    """``{agent_id: (policy_id, batch)}``, cut from the policies' batches when it is first looked into."""

    def __init__(self, batches: Mapping[str, SampleBatch]) -> None:
        self._batches = batches

    @cached_property
    def _found(self) -> dict[Any, tuple[str, SampleBatch]]:
        return {
            agent_id: (policy_id, batch.take_pieces(np.flatnonzero(batch.cuts[AGENT_ID] == agent_id)))
            for policy_id, batch in self._batches.items()
            for agent_id in np.unique(batch.cuts[AGENT_ID]).tolist()
        }

    def __getitem__(self, agent_id: Any) -> tuple[str, SampleBatch]:
        return self._found[agent_id]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _last_of(tables: list[Table], track: int) -> tuple[int, int]:
    """The last row of ``track``: the number of the table and the row in it, -1 for both where there is none."""
    for place in reversed(range(len(tables))):
        rows = np.flatnonzero(tables[place][TRACK] == track)
        if len(rows):
            return place, int(rows[-1])
    return -1, -1


def _stack(tables: list[Table]) -> Table:
    tables = [table for table in tables if len(table[TRACK])] or tables[:1]
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _sorted(table: Table, slots: int) -> Table:
    """By slot, then agent, in the order logged."""
    order = np.lexsort((table[TRACK] // slots, table[TRACK] % slots))
    return {name: column[order] for name, column in table.items()}


def _open_rows(track: NDArray[np.int64], pending: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which acts have no outcome yet: the last one of each pending track."""
    result = np.zeros(len(track), np.bool_)
    reversed_tracks, first_seen = np.unique(track[::-1], return_index=True)
    last = len(track) - 1 - first_seen
    result[last[pending[reversed_tracks]]] = True
    return result


def _successor(acts: Table) -> Table:
    """Of open acts, what a piece that they follow ends on."""
    kept = {name: column for name, column in acts.items() if name.split(".")[0] in (OBS, STATE_IN)}
    return {TRACK: acts[TRACK], **kept}


def _after(
    track: NDArray[np.int64],
    ended: NDArray[np.bool_],
    successors: Table,
    endings: Table | None,
    agents: AgentTable,
    slots: int,
    env_name: str,
) -> Table:
    """For each piece the observation and state after its last row: where it ended, else where it goes on."""
    position = np.full(int(max(track.max(), successors[TRACK].max(initial=0))) + 1, -1)
    position[successors[TRACK]] = np.arange(len(successors[TRACK]))
    at = position[track]
    lost = np.flatnonzero(~ended & (at < 0))
    if len(lost):
        agent = agents.ids[track[lost[0]] // slots]
        raise BadValueError(
            f"environment '{env_name}', slot {track[lost[0]] % slots}: agent {agent!r} vanished without "
            "terminated or truncated"
        )
    result: Table = {}
    for name, column in successors.items():
        if name == TRACK:
            continue
        values = np.zeros((len(track), *column.shape[1:]), column.dtype)
        values[~ended] = column[at[~ended]]
        if endings is not None:
            values[ended] = endings[name]
        result[name] = values
    return result

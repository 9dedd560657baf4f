"""One fragment of the fast loop: the table that is filled step by step, and the batch that is cut from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import (
    ACTIONS,
    AGENT_ID,
    BOOTSTRAP,
    ENV_STEP,
    EPS_ID,
    LAST_OBS,
    LAST_STATE,
    LENGTH,
    OBS,
    POLICY_VERSION,
    REWARDS,
    SLOT,
    START,
    STATE_IN,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
    T,
)
from rlcore.columns import Columns, map_columns, take, to_table
from rlcore.env import StepBatch
from rlcore.policy_graph import State
from rlcore.sampling.collect import Collect, Episodes
from rlcore.sampling.collected import Collected
from rlcore.sampling.episode import Episode
from rlcore.sampling.pieces import find_pieces
from rlcore.sampling.table import StepTable

if TYPE_CHECKING:
    from rlcore.sampling.columnar import ColumnarSampler

#: The first guess of how long an episode is where whole ones are collected; the table doubles as needed.
EPISODE_CAPACITY = 256

#: A column of the table that does not reach a batch: whether the row counts. All do where there is none.
_LIVE = "live"


class _Cut(NamedTuple):
    """How rows are cut into pieces. By piece: first row, number of rows, last row and when it was, slot, which of the
    slot's pieces it is, whether it begins with the fragment; by row: slot, and step of the episode (int32)."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    last: NDArray[np.int64]
    slots: NDArray[np.int64]
    rank: NDArray[np.int64]
    opening: NDArray[np.bool_]
    time_of_last: NDArray[np.int64]
    slot_of_row: NDArray[np.int64]
    t: NDArray[np.int32]


class ColumnarFragment:
    """One call of ``collect``: the table that is filled, and the batch that is cut from it."""

    def __init__(self, sampler: ColumnarSampler, how: Collect) -> None:
        self._sampler = sampler
        slots = sampler.num_slots
        self._shares = how.shares(slots) if isinstance(how, Episodes) else None
        self._steps = EPISODE_CAPACITY if isinstance(how, Episodes) else how.steps
        self._table = StepTable(slots, self._steps)
        self._done = np.zeros(slots, np.int64)
        self._time = 0
        self._all_live = True
        self._env_steps = 0
        self._started_at = sampler.t.copy()
        self._state_in = sampler.state
        #: ``(time, slots, last observations, recurrent states)`` of episodes that ended.
        self._endings: list[tuple[int, NDArray[np.int64], Columns, State]] = []
        #: ``(slot, time)`` of the last rows of episodes that broke off within the fragment.
        self._cut_off: set[tuple[int, int]] = set()
        #: Ids of episodes that broke off with its first step.
        self._broken: list[int] = []
        self._lost_steps = 0

    def full(self) -> bool:
        if self._shares is None:
            return self._time == self._steps
        return bool((self._done >= self._shares).all())

    def advance(self) -> None:
        """One step of every slot."""
        sampler, table, time = self._sampler, self._table, self._time
        step = sampler.waiting
        table.make_room(time)
        table.put_nested(OBS, time, step.obs)
        moved = np.array(step.needs_action)
        everyone = np.count_nonzero(moved) == len(moved)
        self._mark_live(moved, everyone)
        before = sampler.state
        if everyone or moved.any():
            actions, extras = sampler.choose(everyone)
            table.put_nested(ACTIONS, time, actions)
            for name, values in extras.items():
                table.put(name, time, values)
            sampler.answer(actions, everyone)
        step = sampler.poll()
        table.put(REWARDS, time, step.reward)
        ended = step.terminated | step.truncated
        endings = np.count_nonzero(ended)
        if endings or not time:
            # Where nothing is put there are zeros.
            table.put(TERMINATED, time, step.terminated)
            table.put(TRUNCATED, time, step.truncated)
        if endings:
            self._end(np.flatnonzero(ended), step)
        if np.count_nonzero(step.first):
            for slot in np.flatnonzero(step.first & ~ended & moved).tolist():
                self._break_off(slot, before)
        sampler.receive(step)
        self._time += 1

    def _mark_live(self, moved: NDArray[np.bool_], everyone: bool) -> None:
        """Notes which rows will count, and that the slots ``moved`` take a step."""
        if not everyone or self._shares is not None:
            self._note_live()
        if not self._all_live:
            live = moved if self._shares is None else moved & (self._done < self._shares)
            self._table.put(_LIVE, self._time, live)
        self._env_steps += len(moved) if everyone else int(moved.sum())

    def _note_live(self) -> None:
        """From now on it is noted which rows count; up to here all did."""
        if self._all_live:
            self._all_live = False
            for earlier in range(self._time):
                self._table.put(_LIVE, earlier, np.ones(self._sampler.num_slots, np.bool_))

    def _end(self, slots: NDArray[np.int64], step: StepBatch) -> None:
        final_obs = map_columns(np.array, step.final_obs)
        state = tuple(np.array(part[slots]) for part in self._sampler.state)
        counted = slots if self._shares is None else slots[self._done[slots] < self._shares[slots]]
        if len(counted) < len(slots):
            kept = np.isin(slots, counted)
            final_obs, state = take(final_obs, kept), tuple(part[kept] for part in state)
        self._done[counted] += 1
        if len(counted):
            self._endings.append((self._time, counted, final_obs, state))

    def _break_off(self, slot: int, before: State) -> None:
        """The step of ``slot`` did not happen, and another episode begins there; ``before`` is the state it began with.

        Of a whole episode nothing is left then. Of a fragment what was before the step is kept, cut off where the
        action was chosen.
        """
        table, time, t = self._table, self._time, int(self._sampler.t[slot])
        if not self._all_live and not table.cell(_LIVE, slot, time):
            return
        if self._all_live:
            self._note_live()
            table.put(_LIVE, time, np.ones(self._sampler.num_slots, np.bool_))
        if self._shares is not None:
            table.set(_LIVE, slot, slice(time - t, time + 1), False)
            self._lost_steps += t + 1
            return
        table.set(_LIVE, slot, slice(time, time + 1), False)
        self._lost_steps += 1
        if t and time:
            table.set(TRUNCATED, slot, slice(time - 1, time), True)
            self._cut_off.add((slot, time - 1))
            obs = table.cell_nested(OBS, slot, time)
            self._endings.append((time - 1, np.array([slot]), obs, tuple(part[[slot]] for part in before)))
        elif t:
            # Its rows are in earlier fragments, which end well as they are.
            self._broken.append(self._sampler.book.break_off(slot))

    def collected(self) -> Collected:
        """The batch of this fragment, cut into pieces, and the episodes that ended."""
        sampler = self._sampler
        keep = None
        if not self._all_live:
            keep = np.flatnonzero(self._table.column(_LIVE, self._time))
        table = self._table.rows(self._time, keep)
        table.pop(_LIVE, None)
        cut = self._one_piece_a_slot() if keep is None and not self._endings else self._cut(table, keep)
        table[T] = cut.t
        table[ENV_STEP] = cut.t.astype(np.int64)
        role = sampler.role
        obs = self._table.nested(OBS, table)
        table.update(to_table(OBS, role.take_in(obs, cut.slot_of_row, cut.t)))
        role.observe(obs)
        last, slots = cut.last, cut.slots
        terminated = table[TERMINATED][last]
        ended = terminated | table[TRUNCATED][last]
        cuts: dict[str, Any] = {
            START: cut.starts,
            LENGTH: cut.sizes,
            SLOT: slots.astype(np.int32),
            AGENT_ID: np.zeros(len(slots), np.int64),
            EPS_ID: sampler.book.eps_id(slots, sampler.book.number[slots] + cut.rank),
            POLICY_VERSION: np.full(len(slots), role.version, np.int64),
            BOOTSTRAP: ~terminated,
        }
        cuts.update(self._boundaries(slots, cut.opening, ended, cut.t[last] + 1))
        batch = SampleBatch(table, cuts)
        episodes = self._episodes(batch, ended, cut.time_of_last)
        return Collected(
            {role.policy_id: batch},
            episodes,
            self._env_steps,
            lost_steps=self._lost_steps,
            broken=tuple(self._broken),
        )

    def _one_piece_a_slot(self) -> _Cut:
        """How rows are cut where every slot moved in each step and no episode ended."""
        slots, steps = np.arange(self._sampler.num_slots), np.arange(self._time, dtype=np.int32)
        starts = slots * self._time
        return _Cut(
            starts=starts,
            sizes=np.full(len(slots), self._time),
            last=starts + (self._time - 1),
            slots=slots,
            rank=np.zeros_like(slots),
            opening=np.ones(len(slots), np.bool_),
            time_of_last=np.full(len(slots), self._time - 1),
            slot_of_row=slots.repeat(self._time),
            t=(self._started_at[:, None] + steps).reshape(-1),
        )

    def _cut(self, table: dict[str, Any], keep: NDArray[np.int64] | None) -> _Cut:
        """How the rows at ``keep``, or all of them, are cut."""
        slot_of_row = np.arange(self._sampler.num_slots).repeat(self._time) if keep is None else keep // self._time
        starts, sizes, last = find_pieces(slot_of_row, table[TERMINATED] | table[TRUNCATED])
        slots = slot_of_row[starts]
        # Only a piece that begins with the fragment can go on with an earlier one.
        opening = self._time_of(starts, keep) == 0
        carried = np.where(opening, self._started_at[slots], 0)
        return _Cut(
            starts=starts,
            sizes=sizes,
            last=last,
            slots=slots,
            rank=np.arange(len(starts)) - np.searchsorted(slots, slots),
            opening=opening,
            time_of_last=self._time_of(last, keep),
            slot_of_row=slot_of_row,
            t=(np.repeat(carried - starts, sizes) + np.arange(len(slot_of_row))).astype(np.int32),
        )

    def _time_of(self, rows: NDArray[np.int64], keep: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """When within the fragment the rows were."""
        return np.asarray((rows if keep is None else keep[rows]) % self._time)

    def _boundaries(
        self,
        slots: NDArray[np.int64],
        opening: NDArray[np.bool_],
        ended: NDArray[np.bool_],
        next_step: NDArray[np.int32],
    ) -> dict[str, Any]:
        """What lies before and after each piece: ``last_obs``, ``state_in.N``, ``last_state.N``."""
        sampler = self._sampler
        last_obs = take(sampler.waiting.obs, slots)
        last_state = tuple(part[slots] for part in sampler.state)
        if self._endings:
            # Endings came in order of time; pieces lie in order of slot.
            end_slots = np.concatenate([slots for _, slots, _, _ in self._endings])
            end_times = np.repeat([time for time, *_ in self._endings], [len(slots) for _, slots, *_ in self._endings])
            order = np.lexsort((end_times, end_slots))
            finals = [to_table(LAST_OBS, final_obs) for _, _, final_obs, _ in self._endings]
            columns = to_table(LAST_OBS, last_obs)
            for name, column in columns.items():
                column[ended] = np.concatenate([final[name] for final in finals])[order]
            for i, part in enumerate(last_state):
                part[ended] = np.concatenate([state[i] for *_, state in self._endings])[order]
        result = to_table(LAST_OBS, sampler.role.take_in(last_obs, slots, next_step))
        state_in = self._state_in or ()
        fresh = sampler.role.policy.initial_state(len(slots)) if state_in else ()
        for i, part in enumerate(last_state):
            begun = np.array(fresh[i])
            begun[opening] = state_in[i][slots[opening]]
            result[f"{STATE_IN}.{i}"] = begun
            result[f"{LAST_STATE}.{i}"] = part
        return result

    def _episodes(
        self, batch: SampleBatch, ended: NDArray[np.bool_], time: NDArray[np.int64]
    ) -> list[Episode]:
        """Adds the pieces to the book; the episodes that ended, in the order in which they did."""
        if not len(batch):
            return []
        slots = batch.cuts[SLOT]
        sums = np.add.reduceat(batch[REWARDS].astype(np.float64), batch.cuts[START])
        order = np.flatnonzero(ended)
        if len(order) > 1:
            order = order[np.lexsort((slots[order], time[order]))]
        if self._cut_off:
            finished = [(slot, at) not in self._cut_off for slot, at in zip(slots[order], time[order], strict=True)]
            order = order[finished]
        policy_id = self._sampler.role.policy_id
        return self._sampler.book.settle(policy_id, slots, sums, batch.cuts[LENGTH], ended, order)

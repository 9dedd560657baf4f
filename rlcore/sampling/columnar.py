"""The fast loop: environments that step together, one agent in each, recorded as whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import to_env
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
from rlcore.columns import Columns, from_table, map_columns, take, to_table
from rlcore.env import BatchedEnv, StepBatch
from rlcore.policy_graph import ActRows, State
from rlcore.sampling.collect import Collect, Episodes
from rlcore.sampling.collected import Collected
from rlcore.sampling.episode import Episode, EpisodeBook
from rlcore.sampling.pieces import find_pieces
from rlcore.sampling.role import Role
from rlcore.sampling.table import StepTable

#: The first guess of how long an episode is where whole ones are collected; the table doubles as needed.
EPISODE_CAPACITY = 256


class ColumnarSampler:
    """Samples a ``lockstep`` environment. The same batches as ``GeneralSampler``, at a constant cost a step."""

    def __init__(self, env: BatchedEnv, role: Role, *, index: int, explore: bool, rng: np.random.Generator) -> None:
        ((self._group, (_, self._action_space)),) = env.groups.items()
        self._env = env
        self._role = role
        self._explore = explore
        self._rng = rng
        self._slots = np.arange(env.num_slots, dtype=np.int32)
        self._book = EpisodeBook(env.num_slots, index)
        self._t = np.zeros(env.num_slots, np.int32)
        self._state: State = ()
        self._step: StepBatch | None = None

    def collect(self, how: Collect) -> Collected:
        """One fragment, or whole episodes."""
        if self._step is None or isinstance(how, Episodes):
            self._restart()
        fragment = _Fragment(self, how)
        while not fragment.full():
            fragment.advance()
        return fragment.collected()

    def _restart(self) -> None:
        if self._step is not None:
            self._book.restart()
        self._env.reset(int(self._rng.integers(2**31)))
        self._receive(self._env.poll(None)[self._group])
        self._state = self._role.policy.initial_state(len(self._slots))

    def _receive(self, step: StepBatch) -> None:
        self._step = step
        if step.first.any():
            self._t[step.first] = 0
            self._reset_state(step.first)

    def _reset_state(self, first: NDArray[np.bool_]) -> None:
        if self._state:
            fresh = self._role.policy.initial_state(int(first.sum()))
            self._state = tuple(np.array(part) for part in self._state)
            for part, new in zip(self._state, fresh, strict=True):
                part[first] = new

    def get_state(self) -> dict[str, Any]:
        """What ``set_state`` needs beside the environment's own state."""
        return {
            "started": self._step is not None,
            "book": self._book.get_state(),
            "t": self._t.copy(),
            "state": {str(i): np.array(part) for i, part in enumerate(self._state)},
        }

    def set_state(self, state: dict[str, Any], restarted: list[int]) -> None:
        """Goes on; the environment has been restored before, but for the slots ``restarted``."""
        self._book.set_state(state["book"])
        self._t = np.array(state["t"])
        self._state = tuple(state["state"][str(i)] for i in range(len(state["state"])))
        self._step = None
        if state["started"]:
            for slot in restarted:
                self._book.abandon(slot)
                self._book.number[slot] += 1
            self._receive(self._env.poll(None)[self._group])


class _Fragment:
    """One call of ``collect``: the table that is filled, and the batch that is cut from it."""

    def __init__(self, sampler: ColumnarSampler, how: Collect) -> None:
        self._sampler = sampler
        slots = len(sampler._slots)
        self._shares = how.shares(slots) if isinstance(how, Episodes) else None
        self._steps = EPISODE_CAPACITY if isinstance(how, Episodes) else how.steps
        self._table = StepTable(slots, self._steps)
        self._done = np.zeros(slots, np.int64)
        self._time = 0
        self._all_live = True
        self._env_steps = 0
        self._started_at = sampler._t.copy()
        self._state_in = sampler._state
        self._endings: list[tuple[int, NDArray[np.int64], Columns, State]] = []

    def full(self) -> bool:
        if self._shares is None:
            return self._time == self._steps
        return bool((self._done >= self._shares).all())

    def advance(self) -> None:
        """One step of every slot."""
        sampler, table, time = self._sampler, self._table, self._time
        step = sampler._step
        assert step is not None
        table.make_room(time)
        for name, values in to_table(OBS, step.obs).items():
            table.put(name, time, values)
        everyone = self._mark_live(step)
        if everyone:
            actions = self._act(step, everyone)
            sampler._env.send({sampler._group: (step.slot, to_env(actions, sampler._action_space))})
        elif step.needs_action.any():
            actions = self._act(step, everyone)
            rows = np.flatnonzero(step.needs_action)
            chosen = to_env(take(actions, rows), sampler._action_space)
            sampler._env.send({sampler._group: (step.slot[rows], chosen)})
        step = sampler._env.poll(None)[sampler._group]
        table.put(REWARDS, time, step.reward)
        table.put(TERMINATED, time, step.terminated)
        table.put(TRUNCATED, time, step.truncated)
        ended = step.terminated | step.truncated
        if ended.any():
            self._end(np.flatnonzero(ended), step)
        sampler._t += 1
        sampler._receive(step)
        self._time += 1

    def _mark_live(self, step: StepBatch) -> bool:
        """Whether every slot takes an action; notes which rows will count."""
        everyone = bool(step.needs_action.all())
        if self._shares is None and everyone and self._all_live:
            self._env_steps += len(step.slot)
            return True
        if self._all_live:
            self._all_live = False
            for earlier in range(self._time):
                self._table.put("live", earlier, np.ones(len(step.slot), np.bool_))
        live = step.needs_action if self._shares is None else step.needs_action & (self._done < self._shares)
        self._table.put("live", self._time, live)
        self._env_steps += int(step.needs_action.sum())
        return everyone

    def _act(self, step: StepBatch, everyone: bool) -> Columns:
        """The actions of all slots, zeros where none is needed; records them and what acting returned."""
        sampler = self._sampler
        role = sampler._role
        rows = ActRows(step.slot, step.agent_id, sampler._t, step.first)
        if everyone:
            out = role.act(step.obs, sampler._state, rows, sampler._explore, sampler._rng)
            actions, state, extras = out.actions, out.state, out.extras
        else:
            index = np.flatnonzero(step.needs_action)
            out = role.act(
                take(step.obs, index),
                tuple(part[index] for part in sampler._state),
                ActRows(*(column[index] for column in rows)),
                sampler._explore,
                sampler._rng,
            )
            size = len(step.slot)
            actions = map_columns(lambda array: _spread(array, index, size), out.actions)
            extras = {name: _spread(array, index, size) for name, array in out.extras.items()}
            state = tuple(
                _overwrite(old, index, new) for old, new in zip(sampler._state, out.state, strict=True)
            )
        sampler._state = state
        for name, values in to_table(ACTIONS, actions).items():
            self._table.put(name, self._time, values)
        for name, values in extras.items():
            self._table.put(name, self._time, values)
        return actions

    def _end(self, slots: NDArray[np.int64], step: StepBatch) -> None:
        final_obs = map_columns(np.array, step.final_obs)
        state = tuple(np.array(part[slots]) for part in self._sampler._state)
        counted = slots if self._shares is None else slots[self._done[slots] < self._shares[slots]]
        if len(counted) < len(slots):
            kept = np.isin(slots, counted)
            final_obs, state = take(final_obs, kept), tuple(part[kept] for part in state)
        self._done[counted] += 1
        if len(counted):
            self._endings.append((self._time, counted, final_obs, state))

    def collected(self) -> Collected:
        """The batch of this fragment, cut into pieces, and the episodes that ended."""
        sampler = self._sampler
        keep = None
        if not self._all_live:
            live = self._table.rows(self._time, None)["live"]
            keep = np.flatnonzero(live)
        table = self._table.rows(self._time, keep)
        table.pop("live", None)
        flat = np.arange(len(sampler._slots) * self._time) if keep is None else keep
        slot_of_row, time_of_row = flat // self._time, flat % self._time
        ended = table[TERMINATED] | table[TRUNCATED]
        starts, sizes, last = find_pieces(slot_of_row, ended)
        slots = slot_of_row[starts]
        rank = np.arange(len(starts)) - np.searchsorted(slots, slots)
        # Only a piece that begins with the fragment can go on with an earlier one.
        opening = time_of_row[starts] == 0
        carried = np.where(opening, self._started_at[slots], 0)
        within = np.arange(len(flat)) - np.repeat(starts, sizes)
        table[T] = (np.repeat(carried, sizes) + within).astype(np.int32)
        table[ENV_STEP] = table[T].astype(np.int64)
        role = sampler._role
        obs = from_table(OBS, table)
        table.update(to_table(OBS, role.take_in(obs, slot_of_row, table[T])))
        role.observe(obs)
        cuts: dict[str, Any] = {
            START: starts,
            LENGTH: sizes,
            SLOT: slots.astype(np.int32),
            AGENT_ID: np.zeros(len(starts), np.int64),
            EPS_ID: sampler._book.eps_id(slots, sampler._book.number[slots] + rank),
            POLICY_VERSION: np.full(len(starts), role.version, np.int64),
            BOOTSTRAP: ~table[TERMINATED][last],
        }
        cuts.update(self._boundaries(slots, opening, ended[last], table[T][last] + 1))
        batch = SampleBatch(table, cuts)
        episodes = self._episodes(batch, ended[last], time_of_row[last])
        return Collected({role.policy_id: batch}, episodes, self._env_steps)

    def _boundaries(
        self,
        slots: NDArray[np.int64],
        opening: NDArray[np.bool_],
        ended: NDArray[np.bool_],
        next_step: NDArray[np.int32],
    ) -> dict[str, Any]:
        """What lies before and after each piece: ``last_obs``, ``state_in.N``, ``last_state.N``."""
        sampler = self._sampler
        step = sampler._step
        assert step is not None
        last_obs = take(step.obs, slots)
        last_state = tuple(part[slots] for part in sampler._state)
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
        result = to_table(LAST_OBS, sampler._role.take_in(last_obs, slots, next_step))
        state_in = self._state_in or ()
        fresh = sampler._role.policy.initial_state(len(slots)) if state_in else ()
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
        order = np.flatnonzero(ended)[np.lexsort((slots[ended], time[ended]))]
        policy_id = self._sampler._role.policy_id
        return self._sampler._book.settle(policy_id, slots, sums, batch.cuts[LENGTH], ended, order)


def _spread(values: NDArray[Any], index: NDArray[np.int64], size: int) -> NDArray[Any]:
    full = np.zeros((size, *values.shape[1:]), values.dtype)
    full[index] = values
    return full


def _overwrite(old: NDArray[Any], index: NDArray[np.int64], new: NDArray[Any]) -> NDArray[Any]:
    full = np.array(old)
    full[index] = new
    return full

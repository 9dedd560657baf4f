"""The fast loop: environments that step together, one agent in each, driven as whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import to_env
from rlcore.columns import Columns, map_columns, take
from rlcore.env import BatchedEnv, StepBatch
from rlcore.policy_graph import ActRows, State
from rlcore.sampling.collect import Collect, Episodes
from rlcore.sampling.collected import Collected, Played
from rlcore.sampling.episode import EpisodeBook
from rlcore.sampling.fragment import ColumnarFragment
from rlcore.sampling.role import Role


class ColumnarSampler:
    """Samples a ``lockstep`` environment. The same batches as ``GeneralSampler``, at a constant cost a step."""

    def __init__(self, env: BatchedEnv, role: Role, *, index: int, explore: bool, rng: np.random.Generator) -> None:
        ((self._group, (_, self._action_space)),) = env.groups.items()
        self._env = env
        self.role = role
        self._explore = explore
        self._rng = rng
        self.num_slots = env.num_slots
        self.book = EpisodeBook(env.num_slots, index)
        #: By slot, how many steps its episode has run.
        self.t = np.zeros(env.num_slots, np.int32)
        #: The recurrent state that acting on the waiting observations takes.
        self.state: State = ()
        self._step: StepBatch | None = None

    def collect(self, how: Collect) -> Collected:
        """One fragment, or whole episodes."""
        if self._step is None or isinstance(how, Episodes):
            self._restart()
        fragment = ColumnarFragment(self, how)
        while not fragment.full():
            fragment.advance()
        return fragment.collected()

    def play(self, how: Episodes) -> Played:
        """The same episodes as ``collect`` plays, of which nothing is kept but returns and lengths."""
        self._restart()
        played = Played()
        shares, done = how.shares(self.num_slots), np.zeros(self.num_slots, np.int64)
        spared = self._env.rest(np.flatnonzero(shares == 0))
        while (done < shares).any():
            moved = np.array(self.waiting.needs_action)
            everyone = bool(moved.all())
            if moved.any():
                self.answer(self.choose(everyone)[0], everyone)
                self._check(moved)
                moved[spared] = False
            step = self.poll()
            played.env_steps += int(moved.sum())
            self.book.add(self.role.policy_id, np.flatnonzero(moved), step.reward[moved], 1)
            ended = step.terminated | step.truncated
            for slot in np.flatnonzero(ended).tolist():
                if done[slot] < shares[slot]:
                    played.episodes.append(self.book.finish(slot))
                else:
                    self.book.abandon(slot)
                done[slot] += 1
            spared = self._env.rest(np.flatnonzero(ended & (done == shares)))
            for slot in np.flatnonzero(step.first & ~ended & moved).tolist():
                played.lost_steps += (int(self.t[slot]) + 1) * int(done[slot] < shares[slot])
                self.book.abandon(slot)
            self.receive(step)
        self.book.restart()
        self._step = None
        return played

    def _check(self, moved: NDArray[np.bool_]) -> None:
        """The check that recorded observations go through."""
        if self.role.check is not None:
            step = self.waiting
            self.role.check(take(step.obs, moved), step.slot[moved], step.env_step[moved])

    def _restart(self) -> None:
        if self._step is not None:
            self.book.restart()
        self._env.reset(int(self._rng.integers(2**31)))
        self._open(self.poll())
        self.state = self.role.policy.initial_state(self.num_slots)

    # -- one step, for whatever becomes of it

    @property
    def waiting(self) -> StepBatch:
        """What was handed over last; it holds until the environment is polled."""
        assert self._step is not None
        return self._step

    def choose(self, everyone: bool) -> tuple[Columns, Mapping[str, NDArray[Any]]]:
        """The actions of all slots and what else acting returned, zeros where no action is needed.

        ``everyone`` tells that all slots need one.
        """
        step = self.waiting
        rows = ActRows(step.slot, step.agent_id, self.t, step.first)
        if everyone:
            out = self.role.act(step.obs, self.state, rows, self._explore, self._rng)
            self.state = out.state
            return out.actions, out.extras
        index = np.flatnonzero(step.needs_action)
        out = self.role.act(
            take(step.obs, index),
            tuple(part[index] for part in self.state),
            ActRows(*(column[index] for column in rows)),
            self._explore,
            self._rng,
        )
        self.state = tuple(_overwrite(old, index, new) for old, new in zip(self.state, out.state, strict=True))
        size = self.num_slots
        extras = {name: _spread(array, index, size) for name, array in out.extras.items()}
        return map_columns(lambda array: _spread(array, index, size), out.actions), extras

    def answer(self, actions: Columns, everyone: bool) -> None:
        """Sends the actions of the slots that need one."""
        step = self.waiting
        if everyone:
            self._env.send({self._group: (step.slot, to_env(actions, self._action_space))})
        else:
            rows = np.flatnonzero(step.needs_action)
            self._env.send({self._group: (step.slot[rows], to_env(take(actions, rows), self._action_space))})

    def poll(self) -> StepBatch:
        """What the environment hands over next."""
        return self._env.poll(None)[self._group]

    def receive(self, step: StepBatch) -> None:
        """Goes on with ``step``, one later than before."""
        self.t += 1
        self._open(step)

    def _open(self, step: StepBatch) -> None:
        self._step = step
        if np.count_nonzero(step.first):
            self.t[step.first] = 0
            self._reset_state(step.first)

    def _reset_state(self, first: NDArray[np.bool_]) -> None:
        if self.state:
            fresh = self.role.policy.initial_state(int(first.sum()))
            self.state = tuple(np.array(part) for part in self.state)
            for part, new in zip(self.state, fresh, strict=True):
                part[first] = new

    # -- states

    def get_state(self) -> dict[str, Any]:
        """What ``set_state`` needs beside the environment's own state."""
        return {
            "started": self._step is not None,
            "book": self.book.get_state(),
            "t": self.t.copy(),
            "state": {str(i): np.array(part) for i, part in enumerate(self.state)},
        }

    def set_state(self, state: dict[str, Any], restarted: list[int]) -> None:
        """Goes on; the environment has been restored before, but for the slots ``restarted``."""
        self.book.set_state(state["book"])
        self.t = np.array(state["t"])
        self.state = tuple(state["state"][str(i)] for i in range(len(state["state"])))
        self._step = None
        if state["started"]:
            for slot in restarted:
                self.book.abandon(slot)
                self.book.number[slot] += 1
            self._open(self.poll())


def _spread(values: NDArray[Any], index: NDArray[np.int64], size: int) -> NDArray[Any]:
    full = np.zeros((size, *values.shape[1:]), values.dtype)
    full[index] = values
    return full


def _overwrite(old: NDArray[Any], index: NDArray[np.int64], new: NDArray[Any]) -> NDArray[Any]:
    full = np.array(old)
    full[index] = new
    return full

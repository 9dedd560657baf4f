"""Episodes of a population: each slot of a batched environment has one member at a time, and all act at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlcore.acting import StackedActor, to_env
from rlcore.columns import Columns, concatenate, leaf_spaces, take
from rlcore.env import StepBatch
from rlcore.errors import BadValueError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ActRows, State
from rlcore.sampling.filters import NoFilter
from rlcore.sampling.role import Role

#: Steps after which observations that were kept for the filters are taken in.
_FLUSH = 64

_NONE = np.zeros(0, np.int64)


#: ``seat(slots, members)``: from now on the slots act with the weights of these members.
Seat = Callable[[NDArray[np.int64], NDArray[np.int64]], None]


@dataclass
class MemberReturns:
    """By member, the sums over its episodes: ``returns {policy_id: float64 [members]}`` and ``lengths [members]``.

    ``env_steps`` counts the steps of all slots, also of those for which no member was left and that do not rest;
    ``lost_steps`` those of episodes that had to begin anew.
    """

    returns: dict[str, NDArray[np.float64]]
    lengths: NDArray[np.int64]
    env_steps: int = 0
    lost_steps: int = 0


@dataclass
class Acting:
    """How one policy acts for the members: their weights, and the noise on its continuous actions."""

    role: Role
    members: StackedActor
    noise_std: float
    rng: np.random.Generator
    #: The recurrent state by agent, of all slots.
    states: dict[Any, State] = field(default_factory=dict)
    _seen: list[tuple[Columns, NDArray[Any], NDArray[Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        spaces = leaf_spaces(self.role.action_space)
        self._noisy = {
            leaf for leaf, space in spaces.items() if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
        }
        #: Whether a filter is to learn from what is seen.
        self.keeps = not all(isinstance(one, NoFilter) for one in self.role.filters.values())
        self._recurrent = bool(self.members.initial_state(1))

    def act(self, step: StepBatch, slots: int, rows: NDArray[np.int64] | None, everyone: bool) -> Columns:
        """The environment's actions for ``rows`` of ``step``, all where None. ``everyone``: row ``i`` is slot ``i``."""
        obs, own = step.obs, ActRows(step.slot, step.agent_id, step.env_step, step.first)
        if rows is not None:
            obs, own = take(obs, rows), ActRows(*(column[rows] for column in own))
        state = self._state(own, slots) if self._recurrent else ()
        member = None if everyone and rows is None else np.asarray(own.slot, np.int64)
        actions, after = self.members.act(self.role.normalise(obs), state, member, own)
        if self._recurrent:
            self._keep_state(own, after)
        return to_env(self._with_noise(actions), self.role.action_space)

    def _with_noise(self, actions: Columns) -> Columns:
        if not self.noise_std or not self._noisy:
            return actions
        if not isinstance(actions, dict):
            return self._moved(actions)
        return {leaf: self._moved(own) if leaf in self._noisy else own for leaf, own in actions.items()}

    def _moved(self, actions: NDArray[Any]) -> NDArray[np.float32]:
        noise = self.rng.standard_normal(actions.shape, np.float32)
        return np.asarray(actions + np.float32(self.noise_std) * noise, np.float32)

    def _state(self, rows: ActRows, slots: int) -> State:
        fresh = self.members.initial_state(1)
        parts: list[list[NDArray[Any]]] = []
        for slot, agent, first in zip(rows.slot, rows.agent_id.tolist(), rows.first, strict=True):
            if agent not in self.states:
                self.states[agent] = tuple(np.repeat(part, slots, axis=0) for part in fresh)
            parts.append([new[0] if first else own[slot] for new, own in zip(fresh, self.states[agent], strict=True)])
        return tuple(np.stack(own) for own in zip(*parts, strict=True))

    def _keep_state(self, rows: ActRows, after: State) -> None:
        for i, (slot, agent) in enumerate(zip(rows.slot, rows.agent_id.tolist(), strict=True)):
            for own, new in zip(self.states[agent], after, strict=True):
                own[slot] = new[i]

    def see(self, step: StepBatch, rows: NDArray[np.int64]) -> None:
        """Keeps observations that are acted on for the filter."""
        if len(rows):
            self._seen.append((take(step.obs, rows), step.slot[rows], step.env_step[rows]))
            if len(self._seen) >= _FLUSH:
                self.flush()

    def flush(self) -> None:
        """The filters take in what was kept."""
        if not self._seen:
            return
        columns, slots, steps = zip(*self._seen, strict=True)
        self._seen.clear()
        obs = concatenate(columns)
        if self.role.check is not None:
            self.role.check(obs, np.concatenate(slots), np.concatenate(steps))
        self.role.observe(obs)


class Play:
    """One run through an environment: so many members, in their order, take a slot that is free, for ``episodes``."""

    def __init__(
        self, evaluator: PolicyEvaluator, acting: Mapping[str, Acting], seat: Seat, members: int, episodes: int
    ) -> None:
        self._env = evaluator.env
        self._policy_of = evaluator.policy_of
        self._acting = acting
        self._lone = next(iter(acting.values())) if len(acting) == 1 else None
        slots = self._env.num_slots
        self._seat, self._members, self._episodes = seat, members, episodes
        #: How many members have had a slot; by slot, whose it is, how many episodes are left, and whether any is.
        self._seated = 0
        self._member = np.zeros(slots, np.int64)
        self._left = np.zeros(slots, np.int64)
        self._open = np.zeros(slots, np.bool_)
        #: Slots for which no member was left, of which the environment has not been told yet.
        self._unused: list[NDArray[np.int64]] = []
        self._fill(np.arange(slots))
        self._sent = np.zeros(slots, np.bool_)
        self._running = {policy_id: np.zeros(slots) for policy_id in acting}
        self._length = np.zeros(slots, np.int64)
        returns = {policy_id: np.zeros(members) for policy_id in acting}
        self._played = MemberReturns(returns, np.zeros(members, np.int64))
        self._policies: dict[Any, str] = {}
        self._one_each = self._env.lockstep

    def _fill(self, free: NDArray[np.int64]) -> None:
        """The next members take free slots; what is left over counts no more, and may rest."""
        members = np.arange(self._seated, min(self._seated + len(free), self._members))
        taken = free[: len(members)]
        self._seated += len(members)
        self._member[taken], self._left[taken] = members, self._episodes
        self._open[free] = False
        self._open[taken] = True
        if len(taken):
            self._seat(taken, members)
        if len(taken) < len(free):
            self._unused.append(free[len(taken) :])

    def run(self, seed: int) -> MemberReturns:
        """From a reset with ``seed`` until every member has its episodes."""
        self._env.reset(seed)
        while self._open.any():
            steps = self._env.poll(None)
            self._take_in(steps)
            if self._open.any():
                resting = self._let_rest()
                for group, step in steps.items():
                    self._answer(group, step)
                self._sent[resting] = False
        for one in self._acting.values():
            one.flush()
        for returns in self._played.returns.values():
            if not np.isfinite(returns).all():
                wrong = returns[~np.isfinite(returns)][0]
                raise BadValueError(f"environment '{self._env.name}': the return of an episode is not finite: {wrong}")
        return self._played

    def _let_rest(self) -> NDArray[np.int64]:
        """Tells the environment of slots that nobody needs any more; those that it steps no longer."""
        if not self._unused:
            return _NONE
        unused, self._unused = np.concatenate(self._unused), []
        return self._env.rest(unused)

    # -- what has come

    def _take_in(self, steps: Mapping[str, StepBatch]) -> None:
        if self._one_each and self._lone is not None:
            # All slots in order: no index is needed.
            (step,) = steps.values()
            (running,) = self._running.values()
            running += step.reward
            self._count(self._sent)
            self._turn([step])
            self._sent.fill(False)
            return
        seen = np.zeros(len(self._sent), np.bool_)
        for step in steps.values():
            seen[step.slot] = True
            for policy_id, rows in self._by_policy(step, np.arange(len(step.slot))).items():
                np.add.at(self._running[policy_id], step.slot[rows], step.reward[rows])
        moved = self._sent & seen
        self._count(moved)
        self._turn(list(steps.values()))
        self._sent &= ~moved

    def _count(self, moved: NDArray[np.bool_]) -> None:
        """A step of the slots that have moved."""
        self._length += moved
        self._played.env_steps += int(np.count_nonzero(moved))

    def _turn(self, steps: Sequence[StepBatch]) -> None:
        """Closes episodes that are over, forgets those that were lost: each once, whatever groups and agents say so."""
        over = [step.slot[step.episode_over] for step in steps if np.count_nonzero(step.episode_over)]
        if over:
            self._close(np.unique(np.concatenate(over)))
        begun = [step.slot[step.first & ~step.episode_over] for step in steps if np.count_nonzero(step.first)]
        if begun:
            slots = np.unique(np.concatenate(begun))
            lost = slots[self._sent[slots] & self._open[slots] & (self._length[slots] > 0)]
            self._played.lost_steps += int(self._length[lost].sum())
            self._forget(lost)

    def _close(self, over: NDArray[np.int64]) -> None:
        kept = over[self._open[over]]
        members = self._member[kept]
        for policy_id, running in self._running.items():
            self._played.returns[policy_id][members] += running[kept]
        self._played.lengths[members] += self._length[kept]
        self._left[kept] -= 1
        self._forget(over)
        done = kept[self._left[kept] == 0]
        if len(done):
            self._fill(done)

    def _forget(self, slots: NDArray[np.int64]) -> None:
        for running in self._running.values():
            running[slots] = 0.0
        self._length[slots] = 0

    # -- what is done

    def _answer(self, group: str, step: StepBatch) -> None:
        everyone = self._one_each and bool(step.needs_action.all())
        rows = np.flatnonzero(step.needs_action)
        if not len(rows):
            return
        slots = len(self._sent)
        if self._lone is not None:
            if self._lone.keeps:
                self._lone.see(step, rows[self._open[step.slot[rows]]])
            actions = self._lone.act(step, slots, None if everyone else rows, everyone)
            self._env.send({group: (step.slot if everyone else step.slot[rows], actions)})
        else:
            self._answer_by_policy(group, step, rows, slots)
        self._sent[rows if self._one_each else step.slot[rows]] = True

    def _answer_by_policy(self, group: str, step: StepBatch, rows: NDArray[np.int64], slots: int) -> None:
        parts = self._by_policy(step, rows)
        found = []
        for policy_id, own in parts.items():
            acting = self._acting[policy_id]
            if acting.keeps:
                acting.see(step, own[self._open[step.slot[own]]])
            found.append(acting.act(step, slots, own, everyone=False))
        # Actions go out in the order of the rows that were handed over.
        order = np.argsort(np.concatenate(list(parts.values())))
        actions = take(concatenate(found), order)
        self._env.send({group: (step.slot[rows], actions)})

    def _by_policy(self, step: StepBatch, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Which of the rows belong to each policy."""
        agents = step.agent_id[rows]
        found: dict[str, list[NDArray[np.int64]]] = {}
        for agent in np.unique(agents).tolist():
            policy_id = self._policies.setdefault(agent, self._policy_of(agent))
            found.setdefault(policy_id, []).append(rows[agents == agent])
        return {policy_id: np.concatenate(own) for policy_id, own in found.items()}

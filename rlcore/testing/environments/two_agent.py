"""Two agents in one environment, each with a small task of its own: for everything that holds several policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, Spaces, StepBatch
from rlcore.testing.environments.steps import (
    check_groups,
    check_sent,
    noise,
    seed_bits,
    step_from_tree,
    step_to_tree,
    still_waiting,
)

AGENTS = 2
#: What an agent earns in a step in which it is not asked; added to the reward of its next row.
SILENT_REWARD = 0.5

Mask = NDArray[np.bool_]


class _Rows:
    """What a poll will hand over, by slot and agent ``[num_slots, 2]``."""

    def __init__(self, num_slots: int) -> None:
        shape = (num_slots, AGENTS)
        self.present: Mask = np.zeros(shape, np.bool_)
        self.reward = np.zeros(shape, np.float32)
        self.ended: Mask = np.zeros(shape, np.bool_)
        self.final_context = np.zeros(shape, np.int64)
        self.context = np.zeros(shape, np.int64)
        self.first: Mask = np.zeros(shape, np.bool_)
        self.needs_action: Mask = np.zeros(shape, np.bool_)
        self.env_step = np.zeros(shape, np.int64)
        self.episode_over: Mask = np.zeros(shape, np.bool_)


class TwoAgentEnv(BatchedEnv):
    """Two agents that see a context each, as a one-hot vector, and are paid 1 for the action that it calls for.

    Agent 0 is to answer context ``c`` with action ``c``, agent 1 with ``(c + 1) % n``. Contexts are drawn anew for each
    slot, episode, step and agent, from the seed of ``reset`` alone.

    =================== ====================================================================================
    setting             meaning
    =================== ====================================================================================
    ``num_envs``        slots
    ``agent_ids``       what ``agent_id`` holds: two strings or two integers
    ``separate_groups`` false: both in the group ``default``, with 2 contexts and actions each; true: each in a group
                        that bears its id, agent 0 with 2 contexts and actions, agent 1 with 3
    ``lengths``         environment steps until each agent ends; the episode is over with the longer one
    ``truncate``        agents end by truncation instead of termination
    ``every, start``    an agent acts at the environment steps ``start``, ``start + every``, ... of its episode, and
                        earns 0.5 in each step that it then sits out
    ``first_slot``      number of the first slot as far as contexts go: the slots of one environment of ``n`` slots are
                        those of ``n`` environments of one slot with ``first_slot`` 0 to ``n - 1``
    =================== ====================================================================================

    Where an agent ends before the other, its ending comes in a row without ``needs_action``. ``episode_over`` is set in
    every row of a slot that a poll hands over with the end of its episode.

    Actions may be sent group by group; the environment goes on when the last one has come.

    A restored environment is polled next. Where its state was taken between a poll and the send that answers it, it
    hands over the waiting observations again, without the transitions that led to them.
    """

    def __init__(
        self,
        num_envs: int = 1,
        agent_ids: Sequence[int] | Sequence[str] = ("left", "right"),
        separate_groups: bool = False,
        lengths: Sequence[int] = (8, 8),
        truncate: bool = False,
        every: Sequence[int] = (1, 1),
        start: Sequence[int] = (0, 0),
        first_slot: int = 0,
    ) -> None:
        if not all(len(pair) == AGENTS for pair in (agent_ids, lengths, every, start)):
            raise ValueError("TwoAgentEnv: agent_ids, lengths, every and start hold one entry for each of two agents")
        if min(*lengths, *every, num_envs) < 1 or min(start) < 0 or max(start) >= max(lengths):
            raise ValueError("TwoAgentEnv: num_envs, lengths and every start at 1; start lies within the episode")
        self._ids = np.asarray(agent_ids)
        if self._ids.dtype.kind not in "iU" or self._ids[0] == self._ids[1]:
            raise ValueError(f"TwoAgentEnv: agent_ids must be two different strings or integers, got {agent_ids}")
        self._contexts = np.asarray([2, 3] if separate_groups else [2, 2])
        members = {str(agent): [i] for i, agent in enumerate(agent_ids)} if separate_groups else {DEFAULT_GROUP: [0, 1]}
        self._members = {group: np.asarray(agents) for group, agents in members.items()}
        self.groups = {group: self._spaces(agents[0]) for group, agents in members.items()}
        self.num_slots = num_envs
        self.name = type(self).__name__
        self._lengths, self._every, self._start = np.asarray(lengths), np.asarray(every), np.asarray(start)
        self._truncate = truncate
        self._numbers = np.arange(first_slot, first_slot + num_envs)
        self._seed = seed_bits(0)
        self._t = np.zeros(num_envs, np.int64)
        self._episode = np.zeros(num_envs, np.int64)
        self._alive = np.ones((num_envs, AGENTS), np.bool_)
        self._met = np.zeros((num_envs, AGENTS), np.bool_)  # has had a row in this episode
        self._owed = np.zeros((num_envs, AGENTS), np.float32)  # earned since the agent's last row
        self._due = np.zeros((num_envs, AGENTS), np.bool_)  # acts in the step that comes
        self._unanswered = np.zeros((num_envs, AGENTS), np.bool_)  # its action has not been sent yet
        # By group, with the numbers of the agents in the place of their ids:
        self._ready: dict[str, StepBatch] | None = None
        self._polled: dict[str, StepBatch] = {}

    def _spaces(self, agent: int) -> Spaces:
        size = int(self._contexts[agent])
        return Box(0.0, 1.0, (size,), np.float32), Discrete(size)

    def reset(self, seed: int | None) -> None:
        self._seed = seed_bits(seed)
        self._episode[:] = 0
        rows = _Rows(self.num_slots)
        self._open(np.ones(self.num_slots, np.bool_), rows)
        self._advance(rows)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            raise TimeoutError(
                f"{self.name}: {int(self._unanswered.sum())} agents wait for an action, nothing is ready"
            )
        self._polled, self._ready = self._ready, None
        return {group: replace(step, agent_id=self._ids[step.agent_id]) for group, step in self._polled.items()}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._ready is not None:
            raise ValueError(f"{self.name}: actions were sent before the last step was polled")
        check_groups(self.name, self.groups, actions)
        for group, (slots, chosen) in actions.items():
            self._answer(group, slots, np.asarray(chosen))
            self._polled.pop(group, None)
        if not self._unanswered.any():
            rows = _Rows(self.num_slots)
            self._step(np.ones(self.num_slots, np.bool_), rows)
            self._advance(rows)

    def _answer(self, group: str, slots: NDArray[Any], chosen: NDArray[Any]) -> None:
        agents = self._members[group]
        slot, member = np.nonzero(self._unanswered[:, agents])
        check_sent(f"{self.name}, group {group}", slot, slots, chosen)
        size = int(self._contexts[agents[0]])
        if len(chosen) and (chosen.dtype.kind != "i" or chosen.min() < 0 or chosen.max() >= size):
            raise ValueError(f"{self.name}, group {group}: actions {chosen.tolist()} are not all in 0..{size - 1}")
        agent = agents[member]
        self._owed[slot, agent] += chosen == self._wanted()[slot, agent]
        self._unanswered[slot, agent] = False

    def _context(self) -> NDArray[np.int64]:
        seed = np.asarray(self._seed, np.uint64)
        slot, episode, t = (column[:, None] for column in (self._numbers, self._episode, self._t))
        return (noise(seed, slot, episode, t, np.arange(AGENTS)) % self._contexts.astype(np.uint64)).astype(np.int64)

    def _wanted(self) -> NDArray[np.int64]:
        return np.asarray((self._context() + np.arange(AGENTS)) % self._contexts)

    def _advance(self, rows: _Rows) -> None:
        """Goes on until an action is needed in every slot, and makes the rows ready."""
        while not (served := np.asarray(rows.needs_action.any(1))).all():
            self._step(~served, rows)
        self._due, self._unanswered = rows.needs_action, rows.needs_action.copy()
        self._ready = {
            group: self._hand_over(rows, agents)
            for group, agents in self._members.items()
            if rows.present[:, agents].any()
        }

    def _step(self, moving: Mask, rows: _Rows) -> None:
        """One environment step of the slots ``moving``; what comes of it is entered in ``rows``."""
        silent = moving[:, None] & self._alive & self._met & ~self._due
        self._owed += np.where(silent, np.float32(SILENT_REWARD), np.float32(0.0))
        self._due = self._due & ~moving[:, None]
        self._t = self._t + moving
        ended = moving[:, None] & self._alive & (self._t[:, None] >= self._lengths)
        self._alive = self._alive & ~ended
        ended = ended & self._met  # an agent that was never asked has no row to end
        rows.ended |= ended
        rows.final_context = np.where(ended, self._context(), rows.final_context)
        self._enter(ended, rows)
        over = moving & ~self._alive.any(1)
        self._ask(moving & ~over, rows)
        self._episode = self._episode + over
        self._open(over, rows)
        rows.episode_over |= over[:, None] & rows.present

    def _open(self, slots: Mask, rows: _Rows) -> None:
        """A new episode in ``slots``."""
        self._t = np.where(slots, 0, self._t)
        self._alive = self._alive | slots[:, None]
        self._met = self._met & ~slots[:, None]
        self._owed = np.where(slots[:, None], np.float32(0.0), self._owed)
        self._ask(slots, rows)

    def _ask(self, slots: Mask, rows: _Rows) -> None:
        """The agents of ``slots`` whose turn it is see their context."""
        turn = (self._t[:, None] >= self._start) & ((self._t[:, None] - self._start) % self._every == 0)
        asked = slots[:, None] & self._alive & turn
        rows.needs_action |= asked
        rows.first |= asked & ~self._met
        rows.context = np.where(asked, self._context(), rows.context)
        self._met = self._met | asked
        self._enter(asked, rows)

    def _enter(self, which: Mask, rows: _Rows) -> None:
        rows.present |= which
        rows.reward = np.where(which, rows.reward + self._owed, rows.reward)
        rows.env_step = np.where(which, self._t[:, None], rows.env_step)
        self._owed = np.where(which, np.float32(0.0), self._owed)

    def _hand_over(self, rows: _Rows, agents: NDArray[Any]) -> StepBatch:
        slot, member = np.nonzero(rows.present[:, agents])
        at = (slot, agents[member])
        one_hot = np.eye(int(self._contexts[agents[0]]), dtype=np.float32)
        ended, nothing = rows.ended[at], np.zeros(len(slot), np.bool_)
        return StepBatch(
            slot=slot,
            agent_id=agents[member],
            reward=rows.reward[at],
            terminated=nothing if self._truncate else ended,
            truncated=ended if self._truncate else nothing,
            final_obs=one_hot[rows.final_context[at][ended]],
            obs=one_hot[rows.context[at]],
            first=rows.first[at],
            needs_action=rows.needs_action[at],
            env_step=rows.env_step[at],
            episode_over=rows.episode_over[at],
        )

    def get_state(self) -> dict[str, Any] | None:
        state: dict[str, Any] = {name: getattr(self, f"_{name}").copy() for name in _STATE}
        state["seed"] = self._seed
        ready = self._ready
        if ready is None:
            waiting = {group: still_waiting(step, lockstep=False) for group, step in self._polled.items()}
            ready = {group: step for group, step in waiting.items() if len(step.slot)}
        state["ready"] = {group: step_to_tree(step) for group, step in ready.items()}
        return state

    def set_state(self, state: dict[str, Any]) -> list[int]:
        if len(state["t"]) != self.num_slots:
            raise ValueError(f"{self.name}: the state has {len(state['t'])} slots, there are {self.num_slots}")
        for name in _STATE:
            setattr(self, f"_{name}", np.array(state[name]))
        self._seed = int(state["seed"])
        self._ready = {group: step_from_tree(step) for group, step in state["ready"].items()}
        return []

    def close(self) -> None:
        self._ready = None


_STATE = ("t", "episode", "alive", "met", "owed", "due", "unanswered")

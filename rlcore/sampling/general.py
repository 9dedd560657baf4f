"""The general loop: whatever ``poll`` hands over, several agents and policies, in any order and at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import to_env
from rlcore.batch import ACTIONS, ENV_STEP, OBS, STATE_IN, T
from rlcore.columns import Columns, take, to_table
from rlcore.env import BatchedEnv, StepBatch
from rlcore.policy_graph import ActRows, State
from rlcore.sampling.agents import AgentTable
from rlcore.sampling.collect import Collect, Episodes
from rlcore.sampling.collected import Collected
from rlcore.sampling.episode import Episode, EpisodeBook
from rlcore.sampling.log import LIVE, NUMBER, TRACK, VERSION, Log, Table
from rlcore.sampling.role import Role


class GeneralSampler:
    """Samples any ``BatchedEnv``.

    Each agent of each slot is a *track*. An action opens a transition; rewards add up on the track until the agent
    needs its next action or ends, which closes it. Acts and outcomes are logged as they come and matched by track once
    a fragment, so that a step costs a constant number of calls, whatever the number of agents.
    """

    def __init__(
        self,
        env: BatchedEnv,
        roles: Mapping[str, Role],
        policy_of: Callable[[Any], str],
        *,
        index: int,
        explore: bool,
        rng: np.random.Generator,
    ) -> None:
        self._env = env
        self._roles = list(roles.values())
        self._explore = explore
        self._rng = rng
        self._agents = AgentTable(tuple(roles), policy_of)
        self._book = EpisodeBook(env.num_slots, index)
        self._tracks = Tracks(env.num_slots, self._roles)
        self._sent = np.zeros(env.num_slots, np.bool_)
        self._waiting: dict[str, _Waiting] | None = None
        self._open = Log()

    def collect(self, how: Collect) -> Collected:
        """``steps`` turns of each slot on average, or whole episodes."""
        if self._waiting is None or isinstance(how, Episodes):
            self._restart()
        slots = self._env.num_slots
        shares = how.shares(slots) if isinstance(how, Episodes) else None
        done = np.zeros(slots, np.int64)
        log, self._open = self._open, Log()
        episodes: list[Episode] = []
        turns = env_steps = 0
        while (done < shares).any() if shares is not None else turns < slots * how.steps:  # type: ignore[union-attr]
            self._act(log, np.ones(slots, np.bool_) if shares is None else done < shares)
            polled = self._env.poll(None)
            shown, stepped = self._count_turns(polled)
            turns, env_steps = turns + shown, env_steps + stepped
            for slot in self._receive(polled, log):
                if shares is None or done[slot] < shares[slot]:
                    episodes.append(self._book.finish(slot))
                else:
                    self._book.abandon(slot)
                done[slot] += 1
        assert self._waiting is not None
        batches, agents, self._open = log.cut(
            self._roles, self._tracks, self._agents, self._book, self._waiting_obs(), self._env.name
        )
        return Collected(batches, episodes, env_steps, agents)

    def _restart(self) -> None:
        if self._waiting is not None:
            self._book.restart()
        self._tracks.clear()
        self._sent[:] = False
        self._open = Log()
        self._env.reset(int(self._rng.integers(2**31)))
        self._waiting = {}
        self._receive(self._env.poll(None), self._open)

    def _act(self, log: Log, live: NDArray[np.bool_]) -> None:
        """Acts for every row that waits, and sends the actions."""
        assert self._waiting is not None
        waiting, self._waiting = self._waiting, {}
        for group, (step, tracks, policies) in waiting.items():
            self._sent[step.slot] = True
            chosen: dict[str, NDArray[Any]] = {}
            for number, role in enumerate(self._roles):
                rows = np.flatnonzero(policies == number)
                if not len(rows):
                    continue
                own = tracks[rows]
                state = self._tracks.state(number, own)
                obs = take(step.obs, rows)
                t = self._tracks.t[own].astype(np.int32)
                out = role.act(
                    obs,
                    state,
                    ActRows(step.slot[rows], step.agent_id[rows], t, step.first[rows]),
                    self._explore,
                    self._rng,
                )
                self._tracks.open(number, own, out.state)
                slots = step.slot[rows]
                log.act(
                    role.policy_id,
                    {
                        TRACK: own,
                        NUMBER: self._book.number[slots],
                        LIVE: live[slots],
                        T: t,
                        VERSION: np.full(len(own), role.version, np.int64),
                        ENV_STEP: np.array(step.env_step[rows]),
                        **to_table(OBS, obs),
                        **to_table(ACTIONS, out.actions),
                        **out.extras,
                        **{f"{STATE_IN}.{i}": part for i, part in enumerate(state)},
                    },
                )
                for name, values in to_table(ACTIONS, to_env(out.actions, role.action_space)).items():
                    if name not in chosen:
                        chosen[name] = np.zeros((len(step.slot), *values.shape[1:]), values.dtype)
                    chosen[name][rows] = values
            self._env.send({group: (step.slot, _columns(chosen))})

    def _count_turns(self, polled: Mapping[str, StepBatch]) -> tuple[int, int]:
        """How many slots were handed over, and for how many of them the environment had stepped."""
        slots = np.unique(np.concatenate([step.slot for step in polled.values()]))
        stepped = slots[self._sent[slots]]
        self._book.length[stepped] += 1
        self._sent[slots] = False
        return len(slots), len(stepped)

    def _receive(self, polled: Mapping[str, StepBatch], log: Log) -> list[int]:
        """Closes transitions and notes who waits for an action; the slots whose episode is over."""
        assert self._waiting is not None
        over: list[NDArray[Any]] = []
        for group, step in polled.items():
            codes = self._agents.encode(step.agent_id)
            tracks = self._tracks.of(codes, step.slot)
            policies = self._agents.policy[codes]
            ended = step.terminated | step.truncated
            closed = self._tracks.earn(tracks, step.reward, step.needs_action | ended)
            end_index = np.cumsum(ended) - 1
            for number, role in enumerate(self._roles):
                own = policies == number
                self._book.add(role.policy_id, step.slot[own], step.reward[own])
                rows = np.flatnonzero(own & closed)
                if len(rows):
                    outcome, final = self._outcome(number, tracks, step, ended, rows, end_index)
                    log.outcome(role.policy_id, outcome, final)
            self._tracks.close(tracks[closed], tracks[ended])
            self._tracks.begin(tracks[step.first], policies[step.first])
            over.append(step.slot[step.episode_over])
            needing = np.flatnonzero(step.needs_action)
            if len(needing):
                self._waiting[group] = _Waiting(_rows(step, needing), tracks[needing], policies[needing])
        return np.unique(np.concatenate(over)).tolist() if over else []

    def _outcome(
        self,
        number: int,
        tracks: NDArray[np.int64],
        step: StepBatch,
        ended: NDArray[np.bool_],
        rows: NDArray[np.int64],
        end_index: NDArray[np.int64],
    ) -> tuple[Table, Table]:
        """The rows' closed transitions, and for those that ended the observation and state they ended in."""
        outcome: Table = {
            TRACK: tracks[rows],
            "rewards": self._tracks.reward[tracks[rows]].astype(np.float32),
            "terminated": np.array(step.terminated[rows]),
            "truncated": np.array(step.truncated[rows]),
        }
        ending = rows[ended[rows]]
        final: Table = {
            TRACK: tracks[ending],
            **to_table(OBS, take(step.final_obs, end_index[ending])),
            **{f"{STATE_IN}.{i}": part for i, part in enumerate(self._tracks.state(number, tracks[ending]))},
        }
        return outcome, final

    def _waiting_obs(self) -> dict[str, list[Table]]:
        """By policy: tracks, observations and states of the rows that wait for an action."""
        assert self._waiting is not None
        result: dict[str, list[Table]] = {}
        for step, tracks, policies in self._waiting.values():
            for number, role in enumerate(self._roles):
                rows = np.flatnonzero(policies == number)
                own = tracks[rows]
                state = {f"{STATE_IN}.{i}": part for i, part in enumerate(self._tracks.state(number, own))}
                result.setdefault(role.policy_id, []).append(
                    {TRACK: own, **to_table(OBS, take(step.obs, rows)), **state}
                )
        return result

    def get_state(self) -> dict[str, Any]:
        """What ``set_state`` needs beside the environment's own state."""
        return {
            "started": self._waiting is not None,
            "agents": self._agents.get_state(),
            "book": self._book.get_state(),
            "tracks": self._tracks.get_state(),
            "sent": self._sent.copy(),
            "open": self._open.get_state(),
        }

    def set_state(self, state: dict[str, Any], restarted: list[int]) -> None:
        """Goes on; the environment has been restored before, but for the slots ``restarted``."""
        self._agents.set_state(state["agents"])
        self._book.set_state(state["book"])
        self._tracks.set_state(state["tracks"])
        self._sent = np.array(state["sent"])
        self._open = Log()
        self._open.set_state(state["open"])
        self._waiting = None
        if state["started"]:
            self._waiting = {}
            for slot in restarted:
                self._book.abandon(slot)
                self._book.number[slot] += 1
                self._sent[slot] = False
            self._open.forget(self._tracks.forget(restarted))
            self._receive(self._env.poll(None), self._open)


class _Waiting(NamedTuple):
    """Rows of a group that wait for an action, with their tracks and the numbers of their policies."""

    step: StepBatch
    tracks: NDArray[np.int64]
    policies: NDArray[np.int64]


class Tracks:
    """What is known of each agent of each slot: its step, its open transition, its recurrent state."""

    def __init__(self, slots: int, roles: list[Role]) -> None:
        self._slots = slots
        self._roles = roles
        self._state: dict[int, State] = {}
        self.t = np.zeros(0, np.int64)
        self.reward = np.zeros(0, np.float64)
        self.pending = np.zeros(0, np.bool_)

    def of(self, codes: NDArray[np.int64], slots: NDArray[Any]) -> NDArray[np.int64]:
        """The track of each (agent code, slot); room is made for new agents."""
        tracks = np.asarray(codes * self._slots + slots, np.int64)
        size = (int(codes.max(initial=-1)) + 1) * self._slots
        if size > len(self.t):
            more = size - len(self.t)
            self.t = np.append(self.t, np.zeros(more, np.int64))
            self.reward = np.append(self.reward, np.zeros(more, np.float64))
            self.pending = np.append(self.pending, np.zeros(more, np.bool_))
            for number, state in self._state.items():
                fresh = self._roles[number].policy.initial_state(more)
                self._state[number] = tuple(np.concatenate(pair) for pair in zip(state, fresh, strict=True))
        return tracks

    def state(self, number: int, tracks: NDArray[np.int64]) -> State:
        """The recurrent state of policy ``number`` on ``tracks``, copied."""
        if number not in self._state:
            self._state[number] = tuple(
                np.array(part) for part in self._roles[number].policy.initial_state(len(self.t))
            )
        return tuple(part[tracks] for part in self._state[number])

    def open(self, number: int, tracks: NDArray[np.int64], state: State) -> None:
        """An action was taken on ``tracks``."""
        self.pending[tracks] = True
        for part, new in zip(self._state[number], state, strict=True):
            part[tracks] = new

    def earn(
        self, tracks: NDArray[np.int64], reward: NDArray[Any], settles: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Adds rewards; which rows close a transition."""
        self.reward[tracks] += reward
        return np.asarray(settles & self.pending[tracks])

    def close(self, closed: NDArray[np.int64], ended: NDArray[np.int64]) -> None:
        """Transitions were logged; ended tracks start from nothing."""
        self.pending[closed] = False
        self.reward[closed] = 0.0
        self.reward[ended] = 0.0
        self.t[closed] += 1

    def begin(self, tracks: NDArray[np.int64], policies: NDArray[np.int64]) -> None:
        """Episodes open on ``tracks``."""
        self.t[tracks] = 0
        for number, state in self._state.items():
            own = tracks[policies == number]
            fresh = self._roles[number].policy.initial_state(len(own))
            for part, new in zip(state, fresh, strict=True):
                part[own] = new

    def clear(self) -> None:
        """Forgets every open transition."""
        self.t[:] = 0
        self.reward[:] = 0.0
        self.pending[:] = False
        self._state = {}

    def forget(self, slots: list[int]) -> NDArray[np.int64]:
        """Drops the open transitions of ``slots``; the tracks concerned."""
        tracks = np.flatnonzero(np.isin(np.arange(len(self.t)) % self._slots, slots))
        self.pending[tracks] = False
        self.reward[tracks] = 0.0
        self.t[tracks] = 0
        return tracks

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {
            "t": self.t.copy(),
            "reward": self.reward.copy(),
            "pending": self.pending.copy(),
            "state": {
                str(number): {str(i): np.array(part) for i, part in enumerate(state)}
                for number, state in self._state.items()
            },
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.t, self.reward, self.pending = (np.array(state[name]) for name in ("t", "reward", "pending"))
        self._state = {
            int(number): tuple(np.array(parts[str(i)]) for i in range(len(parts)))
            for number, parts in state["state"].items()
        }


def _rows(step: StepBatch, rows: NDArray[np.int64]) -> StepBatch:
    """Copies of the chosen rows, which wait for an action."""
    return StepBatch(
        slot=step.slot[rows],
        agent_id=step.agent_id[rows],
        reward=step.reward[rows],
        terminated=step.terminated[rows],
        truncated=step.truncated[rows],
        final_obs=step.final_obs,
        obs=take(step.obs, rows),
        first=step.first[rows],
        needs_action=step.needs_action[rows],
        env_step=step.env_step[rows],
        episode_over=step.episode_over[rows],
    )


def _columns(table: Mapping[str, NDArray[Any]]) -> Columns:
    if ACTIONS in table:
        return table[ACTIONS]
    return {name.removeprefix(ACTIONS + "."): values for name, values in table.items()}


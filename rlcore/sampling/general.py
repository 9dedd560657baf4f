"""The general loop: whatever ``poll`` hands over, several agents and policies, in any order and at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import to_env
from rlcore.batch import ACTIONS, ENV_STEP, OBS, REWARDS, STATE_IN, TERMINATED, TRUNCATED, T
from rlcore.columns import Columns, take, to_table
from rlcore.env import BatchedEnv, StepBatch
from rlcore.policy_graph import ActRows
from rlcore.sampling.agents import AgentTable
from rlcore.sampling.collect import Collect, Episodes
from rlcore.sampling.collected import Collected, Played
from rlcore.sampling.episode import EpisodeBook
from rlcore.sampling.log import LIVE, NUMBER, TRACK, VERSION, Log, Table
from rlcore.sampling.role import Role
from rlcore.sampling.tracks import Tracks


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
        self.book = EpisodeBook(env.num_slots, index)
        self._tracks = Tracks(env.num_slots, self._roles)
        self._sent = np.zeros(env.num_slots, np.bool_)
        self._waiting: dict[str, _Waiting] | None = None
        self._open = Log()
        #: Ids of episodes that broke off where an earlier sample ends.
        self._broken: list[int] = []

    def collect(self, how: Collect) -> Collected:
        """``steps`` turns of each slot on average, or whole episodes."""
        if self._waiting is None or isinstance(how, Episodes):
            self._restart()
        log, self._open, self._broken = self._open, Log(), []
        played = self._drive(how, log)
        batches, agents, self._open = log.cut(
            self._roles, self._tracks, self._agents, self.book, self._waiting_obs(), self._env.name
        )
        lost, broken = played.lost_steps, tuple(self._broken)
        return Collected(batches, played.episodes, played.env_steps, agents, lost_steps=lost, broken=broken)

    def play(self, how: Episodes) -> Played:
        """The same episodes as ``collect`` plays, of which nothing is kept but returns and lengths."""
        self._restart()
        played = self._drive(how, Log(recording=False))
        self.book.restart()
        self._waiting = None
        return played

    def _drive(self, how: Collect, log: Log) -> Played:
        slots = self._env.num_slots
        shares = how.shares(slots) if isinstance(how, Episodes) else None
        asked = 0 if isinstance(how, Episodes) else slots * how.steps
        done = np.zeros(slots, np.int64)
        played = Played()
        turns = 0
        while turns < asked or (shares is not None and (done < shares).any()):
            live = np.ones(slots, np.bool_) if shares is None else done < shares
            self._act(log, live)
            polled = self._env.poll(None)
            shown, stepped = self._count_turns(polled)
            turns, played.env_steps = turns + shown, played.env_steps + stepped
            played.lost_steps += self._break_off(polled, log, live, whole=shares is not None)
            for slot in self._receive(polled, log):
                if shares is None or done[slot] < shares[slot]:
                    played.episodes.append(self.book.finish(slot))
                else:
                    self.book.abandon(slot)
                done[slot] += 1
        return played

    def _restart(self) -> None:
        if self._waiting is not None:
            self.book.restart()
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
                if role.check is not None and not log.recording:
                    role.check(obs, step.slot[rows], step.env_step[rows])
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
                        NUMBER: self.book.number[slots],
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
        self.book.length[stepped] += 1
        self._sent[slots] = False
        return len(slots), len(stepped)

    def _break_off(
        self, polled: Mapping[str, StepBatch], log: Log, live: NDArray[np.bool_], whole: bool
    ) -> int:
        """Takes back what did not happen: slots whose agents are ``first`` though they acted and did not end.

        How many environment steps of slots that are ``live`` are lost by it: with ``whole`` the running episodes.
        """
        lost = 0
        for step in polled.values():
            if not step.first.any():
                continue
            tracks = self._tracks.of(self._agents.encode(step.agent_id), step.slot)
            broken = step.first & ~(step.terminated | step.truncated) & self._tracks.pending[tracks]
            for slot in np.unique(step.slot[broken]).tolist():
                lost += (int(self.book.length[slot]) if whole else 1) * int(live[slot])
                self._break_off_slot(slot, log, whole)
        return lost

    def _break_off_slot(self, slot: int, log: Log, whole: bool) -> None:
        tracks = self._tracks.pending_in(slot)
        policies = self._agents.policy[tracks // self._env.num_slots]
        kept = [
            log.break_off(self._roles[number].policy_id, track, whole)
            for number, track in zip(policies.tolist(), tracks.tolist(), strict=True)
        ]
        if self._tracks.t[tracks].any() and not whole:
            broken = self.book.break_off(slot)
            if not all(kept):
                self._broken.append(broken)
        else:
            self.book.abandon(slot)
        self._tracks.forget([slot])

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
                self.book.add(role.policy_id, step.slot[own], step.reward[own])
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
            REWARDS: self._tracks.reward[tracks[rows]].astype(np.float32),
            TERMINATED: np.array(step.terminated[rows]),
            TRUNCATED: np.array(step.truncated[rows]),
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
            "book": self.book.get_state(),
            "tracks": self._tracks.get_state(),
            "sent": self._sent.copy(),
            "open": self._open.get_state(),
        }

    def set_state(self, state: dict[str, Any], restarted: list[int]) -> None:
        """Goes on; the environment has been restored before, but for the slots ``restarted``."""
        self._agents.set_state(state["agents"])
        self.book.set_state(state["book"])
        self._tracks.set_state(state["tracks"])
        self._sent = np.array(state["sent"])
        self._open = Log()
        self._open.set_state(state["open"])
        self._waiting = None
        if state["started"]:
            self._waiting = {}
            for slot in restarted:
                self.book.abandon(slot)
                self.book.number[slot] += 1
                self._sent[slot] = False
            self._open.forget(self._tracks.forget(restarted))
            self._receive(self._env.poll(None), self._open)


class _Waiting(NamedTuple):
    """Rows of a group that wait for an action, with their tracks and the numbers of their policies."""

    step: StepBatch
    tracks: NDArray[np.int64]
    policies: NDArray[np.int64]


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


"""StagedEnv: many copies of a game for several agents as one BatchedEnv, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import AGENT_ID, OBS, SLOT
from rlcore.columns import Array, Columns, map_columns, take, to_table
from rlcore.env import BatchedEnv, StepBatch
from rlcore.errors import BadValueError, EnvError
from rlcore.model import BatchedModel
from rlcore_multiagent.answers import Answers
from rlcore_multiagent.copies import Copies
from rlcore_multiagent.failures import ActionsError
from rlcore_multiagent.groups import check_spaces, grouped
from rlcore_multiagent.played import Played, by_turn
from rlcore_multiagent.rows import RowMaker, Rows
from rlcore_multiagent.seating import Seating
from rlcore_multiagent.stage import Build, Turn
from rlcore_multiagent.values import Misfit, action_rows, reward_number

#: More episodes than a slot ever begins, until it is lost with its process and goes on with others.
EPISODES = 1 << 40

#: Moves in which nobody is asked that may follow each other.
SILENT_MOVES = 100_000


def entropy_of(seed: int | None) -> int:
    """What the seeds of all episodes follow from; drawn where ``seed`` is None."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


class StagedEnv(BatchedEnv):
    """``num_envs`` copies that ``build`` makes, each of them a :class:`~rlcore_multiagent.stage.Stage`.

    All copies take a move together: when the last agent that was asked has been answered. A game that is over begins
    anew at once. Each episode of each slot has a seed of its own, which follows from the seed of ``reset``, the number
    of the slot (counted from ``first_slot``) and that of the episode.

    With ``shuffle_seats`` agents with the same spaces take each other's places, drawn anew for each episode. An agent
    that is never asked in an episode has no rows in it, whatever it earns.

    A copy that raises ends the run, or, with ``restarts``, is made anew and begins another episode, as often as
    :mod:`rlcore.restarts` says: rows of its agents are ``first``, and the move that was under way did not happen.

    A state holds each running episode's seed and actions; it is restored by playing them again and compared with what
    is then seen.
    """

    def __init__(
        self,
        build: Build,
        num_envs: int,
        name: str,
        *,
        shuffle_seats: bool = False,
        restarts: bool = False,
        first_slot: int = 0,
    ) -> None:
        """Raises ``SpaceError`` for spaces that numpy columns cannot hold."""
        self.name = name
        self._env_step = [0] * num_envs
        self._first_slot = first_slot
        self._copies = Copies(build, num_envs, self._where, restarts)
        first = self._copies.first
        check_spaces(first.agents, first.spaces, name)
        self._ids = np.array(first.agents)
        self._order = np.argsort(self._ids)
        self._members = grouped(first.agents, first.spaces)
        self.groups = {group: first.spaces[members[0]] for group, members in self._members.items()}
        self.agents = {group: tuple(first.agents[i] for i in members) for group, members in self._members.items()}
        self._group_of = {int(agent): group for group, members in self._members.items() for agent in members}
        self._makers = {group: RowMaker(spaces[0], self._ids) for group, spaces in self.groups.items()}
        self.num_slots = num_envs
        self.frames_per_second, self._model = first.frames_per_second, first.model()
        self._entropy: int | None = None
        self._episode = np.full(num_envs, -1, np.int64)
        keys = num_envs * len(self._ids)
        self._met, self._owed = [False] * keys, [0.0] * keys
        self._seating = Seating(num_envs, self._members, shuffle_seats)
        self._answers = Answers(name, self.groups)
        self._played = Played({group: spaces[1] for group, spaces in self.groups.items()}, num_envs)
        self._ready: dict[str, StepBatch] | None = None
        #: What waits for actions, by group.
        self._waiting: dict[str, StepBatch] = {}

    # -- the environment's loop

    def reset(self, seed: int | None) -> None:
        self._begin(entropy_of(seed), 0)
        rows = self._no_rows()
        for slot in range(self.num_slots):
            self._open(slot, rows)
        self._played.tick()
        self._make_ready(rows, np.zeros(self.num_slots, np.bool_))

    def begin_again(self, entropy: int, life: int) -> None:
        """Takes the place of an environment that was lost in the middle of a move, as the ``life``-th to do so.

        Its episodes follow from the same entropy, and are others.
        """
        self._begin(entropy, life)
        rows = self._no_rows()
        for slot in range(self.num_slots):
            self._lose(slot, rows)
        self._played.tick()
        self._make_ready(rows, np.zeros(self.num_slots, np.bool_))

    def _begin(self, entropy: int, life: int) -> None:
        self._entropy = entropy
        self._episode[:] = life * EPISODES - 1
        self._played.clear()

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            raise TimeoutError(f"{self.name}: {self._answers.missing} rows wait for an action, nothing is ready")
        ready, self._ready = self._ready, None
        self._answers.await_for(ready)
        return ready

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._ready is not None or self._entropy is None:
            raise ActionsError(f"{self.name}: actions were sent before the rows that they answer were polled")
        self._answers.take(actions)
        if self._answers.complete:
            self._move()

    def _move(self) -> None:
        """One move of every copy, with the answers of all."""
        chosen: list[dict[int, Any]] = [{} for _ in range(self.num_slots)]
        for group, (slots, actions) in self._answers.given.items():
            step = self._waiting[group]
            agents = self._numbers(step)[step.needs_action]
            self._played.note(group, slots, agents, step.env_step[step.needs_action], actions)
            each = action_rows(self.groups[group][1], actions)
            for slot, agent, action in zip(slots.tolist(), agents.tolist(), each, strict=True):
                chosen[slot][self._seating.seat_of[slot][agent]] = action
        rows, over = self._no_rows(), np.zeros(self.num_slots, np.bool_)
        for slot, own in enumerate(chosen):
            over[slot] = self._go_on(slot, own, rows)
        self._played.tick()
        self._make_ready(rows, over)

    def _go_on(self, slot: int, chosen: Mapping[int, Any], rows: dict[str, Rows]) -> bool:
        """A move of one copy, and those after it in which nobody is asked; whether its game is over with it."""
        while True:
            try:
                turn = self._copies.step(slot, chosen)
            except EnvError as error:
                self._copies.make_anew(slot, error)
                self._lose(slot, rows)
                return False
            self._env_step[slot] += 1
            if self._take(slot, turn, rows):
                return turn.over
            chosen = {}
            self._check_silence(slot)

    def _lose(self, slot: int, rows: dict[str, Rows]) -> None:
        """The game in ``slot`` was lost in the middle of a move; another one takes its place."""
        base = slot * len(self._ids)
        for group, own in rows.items():
            own.lose([base + int(agent) for agent in self._members[group]])
        self._open(slot, rows)

    def _check_silence(self, slot: int) -> None:
        if self._env_step[slot] > SILENT_MOVES:
            raise BadValueError(f"{self._where(slot)}: nobody was asked to act in {SILENT_MOVES} moves")

    def _take(self, slot: int, turn: Turn, rows: dict[str, Rows]) -> bool:
        """Enters what came of a move; whether somebody is asked then, in a new game where this one is over."""
        base, sitting, met, owed = slot * len(self._ids), self._seating.sitting[slot], self._met, self._owed
        for seat, reward in turn.rewards.items():
            key = base + sitting[seat]
            if met[key]:
                owed[key] += self._earned(slot, sitting[seat], reward)
        for seat, ending in turn.ended.items():
            key = base + sitting[seat]
            if met[key]:
                own = rows[self._group_of[sitting[seat]]]
                own.end(key, ending, self._env_step[slot])
                own.rewards[key], owed[key], met[key] = owed[key], 0.0, False
        if not turn.over:
            return self._ask(slot, turn, rows)
        left = [str(self._ids[key - base]) for key in range(base, base + len(self._ids)) if met[key]]
        if left:
            raise BadValueError(f"{self._where(slot)}: the game is over, but {', '.join(left)} did not end")
        self._copies.ended(slot)
        self._open(slot, rows)
        return True

    def _earned(self, slot: int, agent: int, reward: Any) -> float:
        number = reward_number(reward)
        if number is None:
            raise BadValueError(f"{self._where(slot)}, agent '{self._ids[agent]}': the reward is {reward!r}")
        return number

    def _ask(self, slot: int, turn: Turn, rows: dict[str, Rows]) -> bool:
        base, sitting, met = slot * len(self._ids), self._seating.sitting[slot], self._met
        for seat, obs in turn.asked.items():
            agent = sitting[seat]
            key = base + agent
            own = rows[self._group_of[agent]]
            own.ask(key, obs, not met[key], self._env_step[slot])
            if met[key]:
                own.rewards[key], self._owed[key] = self._owed[key], 0.0
            met[key] = True
        return bool(turn.asked)

    def _open(self, slot: int, rows: dict[str, Rows]) -> None:
        """A new game in ``slot``."""
        while True:
            self._episode[slot] += 1
            self._played.begin(slot)
            self._take_seats(slot)
            try:
                turn = self._copies.open(slot, self._seed(slot))
            except EnvError as error:
                self._copies.make_anew(slot, error)
            else:
                break
        if turn.over or turn.ended:
            raise BadValueError(f"{self._where(slot)}: the game is over before anybody has acted")
        if not self._ask(slot, turn, rows):
            raise BadValueError(f"{self._where(slot)}: nobody is asked to act in the first move")

    def _seed(self, slot: int) -> int:
        key = (self._first_slot + slot, int(self._episode[slot]))
        return int(np.random.SeedSequence(self._entropy, spawn_key=key).generate_state(1, np.uint32)[0] >> 1)

    def _take_seats(self, slot: int) -> None:
        """Nobody has acted yet, and everyone has a seat."""
        base = slot * len(self._ids)
        self._env_step[slot] = 0
        self._met[base : base + len(self._ids)] = [False] * len(self._ids)
        self._owed[base : base + len(self._ids)] = [0.0] * len(self._ids)
        self._seating.deal(slot, self._seed(slot))

    # -- handing over

    def _no_rows(self) -> dict[str, Rows]:
        return {group: Rows() for group in self.groups}

    def _make_ready(self, rows: dict[str, Rows], over: NDArray[np.bool_]) -> None:
        found = {}
        for group, own in rows.items():
            if own.asked or own.ended or own.lost:
                try:
                    found[group] = self._makers[group](own, over)
                except Misfit as misfit:
                    slot, agent = divmod(misfit.row, len(self._ids))
                    raise BadValueError(f"{self._where(slot)}, agent '{self._ids[agent]}': {misfit.problem}") from None
        self._ready, self._waiting = found, found

    def _numbers(self, step: StepBatch) -> NDArray[np.int64]:
        return np.asarray(self._order[np.searchsorted(self._ids, step.agent_id, sorter=self._order)], np.int64)

    def _where(self, slot: int) -> str:
        return f"{self.name}, slot {self._first_slot + slot}, step {self._env_step[slot]}"

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        """Seeds and actions of the running episodes, and the rows that wait. Those of other processes are alike."""
        if self._entropy is None:
            return {"started": False}
        shape = self.num_slots, len(self._ids)
        return {
            "started": True,
            "entropy": self._entropy,
            "episode": self._episode.copy(),
            "env_step": np.array(self._env_step, np.int64),
            "met": np.array(self._met, np.bool_).reshape(shape),
            "owed": np.array(self._owed, np.float64).reshape(shape),
            "first": self._first_rows(),
            "played": self._played.to_tree(),
            "seen": self._seen(),
        }

    def _seen(self) -> dict[str, Any]:
        """By group, who waits for an action and what it sees."""
        return {
            group: {
                SLOT: step.slot[step.needs_action],
                AGENT_ID: self._numbers(step)[step.needs_action],
                **to_table(OBS, map_columns(np.array, take(step.obs, step.needs_action))),
            }
            for group, step in self._waiting.items()
        }

    def _first_rows(self) -> NDArray[np.bool_]:
        first = np.zeros((self.num_slots, len(self._ids)), np.bool_)
        for step in self._waiting.values():
            first[step.slot, self._numbers(step)] = step.first
        return first

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Plays every slot's episode again; those that then see something else begin anew, and so do slots that the
        state does not have."""
        if not state["started"]:
            return []
        kept = min(self.num_slots, len(state["episode"]))
        self._entropy = int(state["entropy"])
        self._episode[:kept] = state["episode"][:kept]
        moves = by_turn(state["played"], {group: spaces[1] for group, spaces in self.groups.items()})
        self._played.restore(state["played"])
        rows = self._no_rows()
        lost = []
        for slot in range(self.num_slots):
            turn = self._replayed(slot, state, moves) if slot < kept else None
            if turn is None:
                lost.append(slot)
                self._open(slot, rows)
                continue
            base = slot * len(self._ids)
            met, owed, first = state["met"][slot], state["owed"][slot], state["first"][slot]
            self._met[base : base + len(self._ids)] = met.tolist()
            self._owed[base : base + len(self._ids)] = owed.tolist()
            for seat, obs in turn.asked.items():
                agent = self._seating.sitting[slot][seat]
                opens = bool(first[agent])
                rows[self._group_of[agent]].ask(base + agent, obs, opens, self._env_step[slot])
        self._played.forget(lost)
        self._make_ready(rows, np.zeros(self.num_slots, np.bool_))
        return lost

    def _replayed(self, slot: int, state: dict[str, Any], moves: Mapping[tuple[int, int], Any]) -> Turn | None:
        """Where a slot's episode stands; None where the same actions lead somewhere else."""
        self._take_seats(slot)
        turn = self._copies.open(slot, self._seed(slot))
        for step in range(int(state["env_step"][slot])):
            own = {self._seating.seat_of[slot][agent]: action for agent, action in moves.get((slot, step), {}).items()}
            if turn.over or own.keys() != turn.asked.keys():
                return None
            turn = self._copies.step(slot, own)
            self._env_step[slot] += 1
        return None if turn.over or not self._sees(slot, turn, state["seen"]) else turn

    def _sees(self, slot: int, turn: Turn, seen: Mapping[str, Mapping[str, Array]]) -> bool:
        """Whether those who are asked are those that waited in a saved state, and see what they saw."""
        waited = 0
        for group, table in seen.items():
            for row in np.flatnonzero(table[SLOT] == slot).tolist():
                waited += 1
                seat = self._seating.seat_of[slot][int(table[AGENT_ID][row])]
                if seat not in turn.asked:
                    return False
                now = to_table(OBS, self._makers[group].columns([turn.asked[seat]]))
                if any(not np.array_equal(column[0], table[name][row]) for name, column in now.items()):
                    return False
        return waited == len(turn.asked) > 0

    # -- the rest

    def model(self) -> BatchedModel | None:
        return self._model

    def render(self, slot: int) -> Array | None:
        return self._copies.render(slot)

    def close(self) -> None:
        self._copies.close()

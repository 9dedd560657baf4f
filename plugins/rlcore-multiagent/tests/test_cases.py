"""Agents that end, join, skip turns and die, as samples of an evaluator show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcore.errors import BadValueError, ConfigError, EnvError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG

pettingzoo = pytest.importorskip("pettingzoo")


class Script(pettingzoo.ParallelEnv):  # type: ignore[misc,name-defined]
    """Agents that see the step and are paid 1 for each, from ``joins`` on and until ``leaves``; ``turns`` says at which
    steps one has an observation."""

    metadata = {"name": "script"}

    def __init__(
        self,
        joins: Mapping[str, int],
        leaves: Mapping[str, int],
        turns: Mapping[str, int] | None = None,
        truncate: bool = False,
    ) -> None:
        self.possible_agents = list(joins)
        self._joins, self._leaves, self._turns = joins, leaves, turns or {}
        self._truncate = truncate
        self._buffer = {agent: np.zeros(1, np.float32) for agent in joins}
        self.acted: list[set[str]] = []

    def observation_space(self, agent: str) -> Any:
        return Box(0, 100, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        self.agents = [agent for agent in self.possible_agents if self._joins[agent] == 0]
        return self._observe(self.agents), {}

    def _observe(self, agents: Any) -> dict[str, Any]:
        shown = [agent for agent in agents if self.t % self._turns.get(agent, 1) == 0]
        for agent in shown:
            self._buffer[agent][:] = 10 + self.t  # one array for all steps
        return {agent: self._buffer[agent] for agent in shown}

    def step(self, actions: Any) -> Any:
        self.acted.append(set(actions))
        self.t += 1
        before = self.agents
        over = {agent: self.t >= self._leaves[agent] for agent in before}
        joined = [agent for agent in self.possible_agents if self._joins[agent] == self.t]
        observations = self._observe([*before, *joined])
        for agent in before:
            if over[agent]:
                self._buffer[agent][:] = 10 + self.t
                observations[agent] = self._buffer[agent]
        self.agents = [agent for agent in before if not over[agent]] + joined
        no = dict.fromkeys(before, False)
        flags = (no, over) if self._truncate else (over, no)
        return observations, dict.fromkeys(before, 1.0), *flags, {}


class Mortal(pettingzoo.AECEnv):  # type: ignore[misc,name-defined]
    """Three agents in turns; the first dies after its first action, the others after their third."""

    metadata = {"name": "mortal", "is_parallelizable": False}
    possible_agents = ["a", "b", "c"]

    def observation_space(self, agent: str) -> Any:
        return Box(0, 100, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self._acts = dict.fromkeys(self.agents, 0)
        self.agent_selection = "a"

    def observe(self, agent: str) -> Any:
        return np.array([self._acts[agent]], np.float32)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            self._cumulative_rewards.pop(agent, None)
        else:
            assert action is not None
            self._cumulative_rewards[agent] = 0.0
            self._acts[agent] += 1
            self.rewards = dict.fromkeys(self.agents, 1.0)
            self.terminations[agent] = self._acts[agent] >= (1 if agent == "a" else 3)
            self._accumulate_rewards()
        if self.agents:
            order = self.possible_agents[self.possible_agents.index(agent) + 1 :] + self.possible_agents
            self.agent_selection = next(one for one in order if one in self.agents)


def sample(env: Any, steps: int, **settings: Any) -> dict[str, Any]:
    """By agent, its pieces of one sample: ``(obs, rewards, terminated, truncated, last_obs)``."""
    evaluator = PolicyEvaluator(env=env, env_settings=settings, graph=LinearPG, collect=Fragment(steps), rng=1)
    batch = evaluator.sample()
    evaluator.close()
    found: dict[str, Any] = {}
    for i, agent in enumerate(batch.cuts["agent_id"].tolist()):
        piece = batch.take_pieces([i])
        columns = (piece["obs"][:, 0], piece["rewards"], piece["terminated"], piece["truncated"])
        found.setdefault(agent, []).append((*(one.tolist() for one in columns), piece.cuts["last_obs"][0, 0]))
    return found


def test_B132_an_agent_that_ends_with_the_fragment() -> None:
    evaluator = PolicyEvaluator(
        env=Script,
        env_settings={"joins": {"a": 0, "b": 0}, "leaves": {"a": 4, "b": 8}},
        graph=LinearPG,
        collect=Fragment(4),
        rng=1,
    )
    first, second = evaluator.sample(), evaluator.sample()
    assert first.cuts["agent_id"].tolist() == ["a", "b"] and second.cuts["agent_id"].tolist() == ["b"]
    assert first["terminated"].tolist() == [False, False, False, True, False, False, False, False]
    assert second["obs"][:, 0].tolist() == [14, 15, 16, 17]


def test_B133_agents_join_and_leave_within_an_episode() -> None:
    found = sample(Script, 6, joins={"a0": 0, "a1": 0, "a2": 3}, leaves={"a0": 2, "a1": 6, "a2": 6})
    # One that joins with step 3 acts three times before the end at 6.
    assert [len(found[agent][0][0]) for agent in ("a0", "a1", "a2")] == [2, 6, 3]
    assert found["a2"][0][0] == [13, 14, 15] and found["a2"][0][4] == 16


def test_B134_what_is_earned_in_silence_belongs_to_the_next_row() -> None:
    found = sample(Script, 5, joins={"a0": 0, "a1": 0}, leaves={"a0": 5, "a1": 5}, turns={"a1": 2})
    observations, rewards, terminated, _, last = found["a1"][0]
    assert (observations, rewards, terminated, last) == ([10, 12, 14], [2, 2, 1], [False, False, True], 15)


def test_B021_B003_observations_are_copies_and_final_ones_are_true() -> None:
    found = sample(Script, 3, joins={"a": 0}, leaves={"a": 3}, truncate=True)
    assert found["a"] == [([10, 11, 12], [1, 1, 1], [False] * 3, [False, False, True], 13)]


def test_B136_dead_agents_are_stepped_with_none_and_have_no_rows() -> None:
    found = sample(Mortal, 7)
    assert {agent: len(pieces[0][0]) for agent, pieces in found.items()} == {"a": 1, "b": 3, "c": 3}
    assert all(pieces[0][2][-1] for pieces in found.values())
    # Three agents are paid with each action while a is there: b's first row has its own, c's and nobody else's.
    assert found["b"][0][1][0] == 2.0


def test_B137_a_game_in_turns_is_refused_in_the_parallel_form() -> None:
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper

    def converted() -> Any:
        return turn_based_aec_to_parallel_wrapper(Mortal())

    with pytest.raises(EnvError, match="a game in turns was converted to the parallel form"):
        PolicyEvaluator(env=converted, graph=LinearPG)
    pytest.importorskip("pygame")
    with pytest.raises(ConfigError, match=r"^env_settings.api: 'pettingzoo:classic.tictactoe_v3' has no parallel_env"):
        PolicyEvaluator(
            env="pettingzoo:classic.tictactoe_v3", env_settings={"api": "parallel"}, graph=LinearPG
        )


class Broken(Script):
    def step(self, actions: Any) -> Any:
        if self.t == 2:
            raise ValueError("boom")
        return super().step(actions)


@pytest.mark.parametrize("workers", [0, 2])
def test_B046_what_an_environment_raises_is_told_with_slot_and_step(workers: int) -> None:
    settings = {"joins": {"a": 0}, "leaves": {"a": 9}, "workers": workers}
    with pytest.raises(EnvError, match=r"Broken, slot 0, step 2: step\(\) raised ValueError: boom\n(?s:.*)raise Val"):
        PolicyEvaluator(env=Broken, env_settings=settings, num_envs=2, graph=LinearPG).sample()


class Silent(Script):
    def step(self, actions: Any) -> Any:
        _, *others = super().step(actions)
        return {}, *others


def test_an_ending_without_a_last_observation() -> None:
    with pytest.raises(EnvError, match=r"Silent, slot 0, step 0: agent 'a' ended without a last observation"):
        sample(Silent, 3, joins={"a": 0}, leaves={"a": 1})


class Wrong(Script):
    def observation_space(self, agent: str) -> Any:
        return Box(0, 100, (2,), np.float32)


def test_an_observation_of_another_shape() -> None:
    with pytest.raises(EnvError, match=r"agent 'a': the observation has shape \(1,\), expected \(2,\)"):
        sample(Wrong, 3, joins={"a": 0}, leaves={"a": 1})


class Paying(Script):
    """Pays ``pays`` in its second step."""

    pays: Any = 1.0

    def step(self, actions: Any) -> Any:
        obs, rewards, *others = super().step(actions)
        return obs, dict.fromkeys(rewards, self.pays) if self.t == 2 else rewards, *others


@pytest.mark.parametrize("pays", [np.nan, np.inf, 1e39, "much", None, [1.0, 2.0]], ids=str)
def test_B115_rewards_that_are_no_finite_numbers(pays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paying, "pays", pays)
    with pytest.raises(BadValueError, match=r"Paying, slot 0, step 2, agent 'a': the reward is "):
        sample(Paying, 6, joins={"a": 0}, leaves={"a": 9})


class Flagging(Script):
    """Returns ``flag`` of every agent in its second step, at the ``place`` in the result of one of the two flags."""

    flag: Any = False
    place = 2

    def step(self, actions: Any) -> Any:
        result = list(super().step(actions))
        if self.t == 2:
            result[self.place] = dict.fromkeys(self.agents, self.flag)
        return tuple(result)


@pytest.mark.parametrize("flag", ["no", "", 2, 1, 0, None, [True, False]], ids=repr)
@pytest.mark.parametrize(("place", "name"), [(2, "terminated"), (3, "truncated")])
def test_flags_that_are_no_booleans(flag: Any, place: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flagging, "flag", flag)
    monkeypatch.setattr(Flagging, "place", place)
    with pytest.raises(BadValueError) as caught:
        sample(Flagging, 6, joins={"a": 0}, leaves={"a": 9})
    said = f"Flagging, slot 0, step 1: agent 'a': {name} is {flag!r}, which is no boolean"
    assert str(caught.value).endswith(said)


class FlaggingInTurns(Mortal):
    """Does not know whether an agent's episode ended."""

    def step(self, action: Any) -> None:
        super().step(action)
        self.terminations[self.agent_selection] = None


def test_flags_that_are_no_booleans_in_turns() -> None:
    with pytest.raises(BadValueError, match="FlaggingInTurns, slot 0, step 0: agent 'b': terminated is None, which is"):
        sample(FlaggingInTurns, 6)


def test_flags_as_arrays_of_one_boolean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flagging, "flag", np.array([False]))
    assert len(sample(Flagging, 6, joins={"a": 0}, leaves={"a": 9})["a"][0][1]) == 6


def test_B042_rewards_as_arrays_of_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paying, "pays", np.array([2.5]))
    assert 2.5 in sample(Paying, 6, joins={"a": 0}, leaves={"a": 9})["a"][0][1]

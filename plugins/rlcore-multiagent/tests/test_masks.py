"""Whoever says what is legal, and wherever: no policy ever does anything else, in training as in evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.envs import build_env
from rlcore.errors import EnvError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG
from rlcore.trainer import Trainer
from rlcore_multiagent import Ending, Stage, StagedEnv, Turn

pettingzoo = pytest.importorskip("pettingzoo")

AGENTS = ("a", "b")
OPTIONS, STEPS = 5, 6
SEEN = Box(0.0, 10.0, (2,), np.float32)


class Rules:
    """Of five options one or two are legal for each agent in each step, others than before."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self.masks: dict[str, Any] = {}

    def begin(self, seed: int | None) -> None:
        self._rng = np.random.default_rng(seed)
        self.draw()

    def draw(self) -> None:
        self.masks = {agent: np.zeros(OPTIONS, np.int8) for agent in AGENTS}
        for mask in self.masks.values():
            mask[self._rng.integers(OPTIONS, size=2)] = 1

    def check(self, agent: str, action: int) -> None:
        assert self.masks[agent][action], f"{agent} did {action}, legal is {self.masks[agent].tolist()}"


class AtOnce(pettingzoo.ParallelEnv):  # type: ignore[misc,name-defined]
    """Masks are in the infos."""

    metadata = {"name": "at_once"}
    possible_agents = list(AGENTS)
    space: Any = SEEN

    def __init__(self) -> None:
        self.rules = Rules()

    def observation_space(self, agent: str) -> Any:
        return self.space

    def action_space(self, agent: str) -> Any:
        return Discrete(OPTIONS)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.t = list(AGENTS), 0
        self.rules.begin(seed)
        return self.shown()

    def shown(self) -> Any:
        return {agent: self.see() for agent in AGENTS}, {agent: self.info(agent) for agent in AGENTS}

    def see(self) -> Any:
        return np.full(2, self.t, np.float32)

    def info(self, agent: str) -> dict[str, Any]:
        return {"action_mask": self.rules.masks[agent]}

    def step(self, actions: Any) -> Any:
        for agent, action in actions.items():
            self.rules.check(agent, action)
        self.rules.draw()
        self.t += 1
        over = dict.fromkeys(AGENTS, self.t >= STEPS)
        observations, infos = self.shown()
        self.agents = [] if self.t >= STEPS else self.agents
        return observations, dict.fromkeys(AGENTS, 1.0), over, dict.fromkeys(AGENTS, False), infos


class SeenAsDict(AtOnce):
    """The same, for agents that see a Dict."""

    space = Dict(place=SEEN)

    def see(self) -> Any:
        return {"place": super().see()}


class InTurns(pettingzoo.AECEnv):  # type: ignore[misc,name-defined]
    """Masks are in the infos, of whoever is to move."""

    metadata = {"name": "in_turns", "is_parallelizable": False}
    possible_agents = list(AGENTS)

    def __init__(self) -> None:
        self.rules = Rules()

    def observation_space(self, agent: str) -> Any:
        return SEEN

    def action_space(self, agent: str) -> Any:
        return Discrete(OPTIONS)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.t = list(AGENTS), 0
        self.rules.begin(seed)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.agent_selection = AGENTS[0]
        self._tell()

    def _tell(self) -> None:
        self.infos: dict[str, Any] = {agent: {} for agent in AGENTS}
        self.infos[self.agent_selection] = {"action_mask": self.rules.masks[self.agent_selection]}

    def observe(self, agent: str) -> Any:
        return np.full(2, self.t, np.float32)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.rules.check(agent, action)
        self.rules.draw()
        self.t += 1
        self.terminations = dict.fromkeys(AGENTS, self.t >= STEPS)
        self.agent_selection = AGENTS[self.t % 2]
        self._tell()


class Own(Stage):
    """A game of one's own, whose agents see masks under another key beside."""

    agents = AGENTS
    spaces = [(Dict(place=SEEN, action_mask=Box(0, 1, (OPTIONS,), np.int8)), Discrete(OPTIONS))] * 2

    def __init__(self) -> None:
        self._rules = Rules()

    def open(self, seed: int) -> Turn:
        self._t = 0
        self._rules.begin(seed)
        return Turn({}, {}, self._see(), False)

    def _see(self) -> dict[int, Any]:
        place = np.full(2, self._t, np.float32)
        return {i: {"place": place, "action_mask": self._rules.masks[agent]} for i, agent in enumerate(AGENTS)}

    def step(self, actions: Mapping[int, Any]) -> Turn:
        for number, action in actions.items():
            self._rules.check(AGENTS[number], action)
        self._rules.draw()
        self._t += 1
        if self._t < STEPS:
            return Turn({0: 1.0, 1: 1.0}, {}, self._see(), False)
        return Turn({0: 1.0, 1: 1.0}, {i: Ending(obs, True) for i, obs in self._see().items()}, {}, True)


def own(num_envs: int) -> BatchedEnv:
    return StagedEnv(Own, num_envs, "own")


SOURCES: dict[str, tuple[Any, str]] = {
    "infos, at once": (AtOnce, "pettingzoo"),
    "infos, beside a Dict": (SeenAsDict, "pettingzoo"),
    "infos, in turns": (InTurns, "pettingzoo"),
    "observations of PettingZoo": ("pettingzoo:classic.tictactoe_v3", "pygame"),
    "OpenSpiel": ("openspiel:tic_tac_toe", "pyspiel"),
    "OpenSpiel, hidden cards": ("openspiel:leduc_poker", "pyspiel"),
    "OpenSpiel, at once": ("openspiel:goofspiel", "pyspiel"),
    "batched board game": ("batched:tictactoe", "rlcore_batched"),
    "another batched board game": ("batched:connect_four", "rlcore_batched"),
    "a stage": (own, "pettingzoo"),
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> Any:
    env, package = SOURCES[request.param]
    pytest.importorskip(package)
    return env


@pytest.mark.parametrize("explore", [True, False])
def test_samples_have_no_action_that_was_masked(source: Any, explore: bool) -> None:
    evaluator = PolicyEvaluator(
        env=source, graph=LinearPG, num_envs=4, collect=Fragment(50), rng=1, explore=explore
    )
    batch = evaluator.sample()
    evaluator.close()
    masks, actions = batch.rows["obs.action_mask"], batch.rows["actions"]
    assert len(batch) > 180 and masks[np.arange(len(batch)), actions].all()
    assert not masks.all()


@pytest.mark.parametrize("source", ["infos, at once", "OpenSpiel", "batched board game", "a stage"], indirect=True)
def test_runs_never_take_a_masked_action(source: Any) -> None:
    """These environments raise where one is taken."""
    env = build_env(source, 1, {})
    first, second = env.agents[DEFAULT_GROUP]
    env.close()
    replay = {"name": "replay", "capacity": 500, "learning_starts": 16, "minibatch_size": 16}
    config = {
        "algorithm": "ppo",
        "env": source,
        "policies": {"ppo": {}, "dqn": {"graph": "torch.dqn", "policy": {"epsilon": 0.5}, "optimizer": replay}},
        "policy_of": {first: "ppo", second: "dqn"},
        "model": {"hidden": [8]},
        "optimizer": {"epochs": 2, "minibatch_size": 64},
        "evaluators": {"envs": 4, "fragment": 32},
        "seed": 1,
    }
    with Trainer(config) as trainer:
        for _ in range(4):
            row = trainer.step()
        assert row["updates"] > 4
        assert trainer.evaluate(20).episodes == 20


def test_what_is_masked_in_an_info_is_told_as_it_stands_there() -> None:
    env = build_env(AtOnce, 1, {})
    assert env.groups[DEFAULT_GROUP][0] == Dict([("observation", SEEN), ("action_mask", Box(0, 1, (5,), np.int8))])
    env.reset(1)
    shown = env.poll(None)[DEFAULT_GROUP].obs
    env.close()
    assert isinstance(shown, dict)
    assert shown["observation"].tolist() == [[0, 0], [0, 0]]
    assert (shown["action_mask"].sum(1) >= 1).all() and (shown["action_mask"].sum(1) <= 2).all()


class Several(AtOnce):
    """Two choices at once, whose masks are as Gymnasium's spaces take them."""

    def action_space(self, agent: str) -> Any:
        return MultiDiscrete([2, 3])

    def info(self, agent: str) -> dict[str, Any]:
        return {"action_mask": (np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8))}

    def step(self, actions: Any) -> Any:
        assert all(action[0] == 0 and action[1] > 0 for action in actions.values())
        return super().step({})


def test_masks_of_several_choices() -> None:
    evaluator = PolicyEvaluator(env=Several, graph=LinearPG, num_envs=2, collect=Fragment(20), rng=1)
    batch = evaluator.sample()
    assert set(batch.rows["actions"][:, 0].tolist()) == {0} and set(batch.rows["actions"][:, 1].tolist()) == {1, 2}


class Silent(AtOnce):
    """Says nothing of agent b, which may do anything."""

    def info(self, agent: str) -> dict[str, Any]:
        return super().info(agent) if agent == "a" else {}

    def step(self, actions: Any) -> Any:
        return super().step({"a": actions["a"]})


def test_without_a_mask_everything_is_legal() -> None:
    evaluator = PolicyEvaluator(env=Silent, graph=LinearPG, num_envs=2, collect=Fragment(60), rng=1)
    batch = evaluator.sample()
    done = {
        agent: set(batch.take_pieces(np.flatnonzero(batch.cuts["agent_id"] == agent)).rows["actions"].tolist())
        for agent in AGENTS
    }
    assert done["b"] == set(range(OPTIONS))


class TooShort(AtOnce):
    def info(self, agent: str) -> dict[str, Any]:
        return {"action_mask": np.ones(3, np.int8)}


def test_a_mask_that_does_not_fit() -> None:
    env = build_env(TooShort, 1, {})
    with pytest.raises(EnvError, match=r"TooShort, slot 0, step 0: agent 'a': the action_mask of its info has 3 flags, "
                       "its actions have 5 options"):
        env.reset(1)
    env.close()


class Nothing(AtOnce):
    """Allows nothing from the third step on."""

    def info(self, agent: str) -> dict[str, Any]:
        return super().info(agent) if self.t < 3 else {"action_mask": np.zeros(OPTIONS, np.int8)}


def test_a_mask_that_allows_nothing_is_told_with_slot_and_step() -> None:
    evaluator = PolicyEvaluator(env=Nothing, graph=LinearPG, num_envs=2, collect=Fragment(20), rng=1)
    with pytest.raises(EnvError, match="slot 0, agent 'a', step 3 of its episode: 'action_mask' leaves no legal"):
        evaluator.sample()

"""Who is tried: tasks, seeds and noise by number, and what comes of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rlcore.env import StepBatch
from rlcore.evaluator_messages import Update
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.registry import load
from rlcore.testing.environments import TwoAgentEnv
from rlcore.testing.environments.contexts import Contexts
from rlcore_es.layout import Layout
from rlcore_es.noise import noise_table
from rlcore_es.population import KeepTable, Outcome, Population

LAYOUT = Layout((("policy.out.bias", (3,)), ("policy.out.weight", (3, 3))))


def population(**changed: object) -> Population:
    whole = Population(
        layouts={"default": LAYOUT},
        pairs=5,
        evaluations=2,
        episodes=1,
        task_pairs=4,
        common_starts=True,
        slots=4,
        noise_std=0.5,
        action_noise=0.0,
        table=1_000,
        seed=7,
    )
    return dataclasses.replace(whole, **changed)


def test_pairs_and_evaluations_are_dealt_out() -> None:
    one = population()
    assert one.tasks == 2
    assert [one.members(i) for i in range(2)] == [(range(0, 4), range(0, 1)), (range(4, 5), range(1, 2))]
    assert population(pairs=4, evaluations=5).members(0) == (range(0, 4), range(0, 5))


@pytest.mark.parametrize("pairs", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("evaluations", [1, 8, 21])
def test_everybody_is_in_one_task(pairs: int, evaluations: int) -> None:
    one = population(pairs=pairs, evaluations=evaluations, task_pairs=8)
    parts = [one.members(i) for i in range(one.tasks)]
    assert [number for own, _ in parts for number in own] == list(range(pairs))
    assert [number for _, own in parts for number in own] == list(range(evaluations))
    assert all(1 <= len(own) <= 8 for own, _ in parts)


def test_generations_and_tasks_have_random_numbers_of_their_own() -> None:
    one = population(pairs=50)
    assert np.array_equal(one.indexes(3), one.indexes(3))
    assert not np.array_equal(one.indexes(3), one.indexes(4))
    assert one.indexes(0).max() <= 1_000 - 12
    seeds = {one.seeds(generation, task) for generation in range(20) for task in range(20)}
    assert len(seeds) == 400 and all(0 <= env < 2**31 for env, _ in seeds)


def test_a_layout_there_and_back() -> None:
    weights = {"policy.out.weight": np.arange(9, dtype=np.float32).reshape(3, 3), "policy.out.bias": -np.ones(3)}
    vector = LAYOUT.flatten(weights)
    assert vector.tolist() == [-1, -1, -1, *range(9)]
    back = LAYOUT.weights(vector)
    assert all(np.array_equal(back[name], weights[name]) for name in weights)
    stacks = LAYOUT.stacks(np.stack([vector, 2 * vector]).astype(np.float32))
    assert stacks["policy.out.weight"].shape == (2, 3, 3)
    assert np.array_equal(stacks["policy.out.weight"][1], 2 * weights["policy.out.weight"])


def evaluator() -> PolicyEvaluator:
    one = PolicyEvaluator(env=Contexts, graph=load("policy_graph", "numpy.pg"), num_envs=4, rng=1)
    one.perform(KeepTable(population().table_name), noise_table(1_000, 7))
    return one


def outcome(number: int, **changed: object) -> Outcome:
    one = evaluator()
    weights = {"default": one.get_weights()["default"]}
    found: Outcome = one.perform(population(**changed).order(2, number), Update({}, 1, {}, {}), weights)
    return found


def test_members_act_with_the_noise_of_their_windows() -> None:
    found, one = outcome(0), population()
    assert found.tasks == [0] and found.pairs.tolist() == [0, 1, 2, 3]
    # Four pairs and one evaluation in four slots: plus takes two episodes of each, minus one.
    assert found.env_steps == 3 * 4 * 8
    assert [(episode.eps_id, episode.length) for episode in found.metrics.episodes] == [(4, 8)]
    # Each pair is tried one by one, by hand, in an environment of the same seed.
    table, (env_seed, _) = noise_table(1_000, 7), one.seeds(2, 0)
    centre = LAYOUT.flatten(evaluator().get_weights()["default"])
    for pair, index in enumerate(one.indexes(2)[:4]):
        for row, sign in enumerate((1.0, -1.0)):
            weights = LAYOUT.weights(centre + sign * 0.5 * table[index : index + 12])
            env, total = Contexts(num_envs=4), 0.0
            env.reset(env_seed)
            for _ in range(8):
                (step,) = env.poll(None).values()
                total += float(step.reward[pair])
                logits = 40.0 * step.obs @ weights["policy.out.weight"] + weights["policy.out.bias"]
                env.send({"default": (step.slot, logits.argmax(axis=1))})
            (step,) = env.poll(None).values()
            total += float(step.reward[pair])
            assert found.returns["default"][row, pair] == total


def test_all_together_in_slots_that_become_free() -> None:
    """Without common starts: nine members in four slots, three episodes of each."""
    found = outcome(0, common_starts=False)
    assert found.env_steps == 3 * 4 * 8 and found.returns["default"].shape == (2, 4)
    assert len(found.metrics.episodes) == 1
    # The first four members are the same, from the same starts, as with them.
    assert np.array_equal(found.returns["default"][0], outcome(0).returns["default"][0])


def test_the_mean_of_several_episodes_counts() -> None:
    one = outcome(0, episodes=2, common_starts=False)
    assert one.env_steps == 2 * 3 * 4 * 8
    assert np.array_equal(2 * one.returns["default"], np.rint(2 * one.returns["default"]))


def test_parts_merge_to_the_whole() -> None:
    one, two = outcome(0), outcome(1)
    whole = Outcome.merged([two, one])
    assert whole.tasks == [1, 0] and whole.pairs.tolist() == [4, 0, 1, 2, 3]
    assert whole.returns["default"].shape == (2, 5)
    assert whole.env_steps == one.env_steps + two.env_steps
    assert not Outcome.merged([]).tasks


def cartpole(**settings: object) -> tuple[Outcome, Population]:
    """Twelve members in four slots, whose episodes are of different lengths."""
    weights = {"policy.out.bias": (2,), "policy.out.weight": (4, 2)}
    whole = population(layouts={"default": Layout(tuple(weights.items()))}, pairs=5, task_pairs=5, common_starts=False)
    graph = load("policy_graph", "numpy.pg")
    one = PolicyEvaluator(env="CartPole-v1", env_settings=settings, graph=graph, num_envs=4, rng=1)
    one.perform(KeepTable(whole.table_name), noise_table(1_000, 7))
    found: Outcome = one.perform(whole.order(0, 0), Update({}, 1, {}, {}), {"default": one.get_weights()["default"]})
    one.close()
    return found, whole


def test_slots_without_a_member_rest_where_they_can() -> None:
    """Copies are not stepped any more; the vector environment steps on and gives the same returns."""
    (copies, _), (vector, _) = cartpole(), cartpole(vectorization="native")
    assert np.array_equal(copies.returns["default"], vector.returns["default"])
    assert len(np.unique(copies.returns["default"])) > 3
    lengths = sum(episode.length for episode in copies.metrics.episodes)
    # Each step pays 1.
    assert copies.env_steps == copies.returns["default"].sum() + lengths < vector.env_steps


def two_agents(env: type[TwoAgentEnv], separate_groups: bool) -> Outcome:
    """Seven members in two slots."""
    graph, agents = load("policy_graph", "numpy.pg"), ("even", "odd")
    one = PolicyEvaluator(
        env=env,
        env_settings={"agent_ids": agents, "separate_groups": separate_groups},
        policies=dict.fromkeys(agents, graph),
        policy_of={name: name for name in agents},
        num_envs=2,
        rng=1,
    )
    weights = one.get_weights()
    layouts = {
        name: Layout(tuple((weight, array.shape) for weight, array in sorted(own.items())))
        for name, own in weights.items()
    }
    whole = population(layouts=layouts, pairs=3, task_pairs=3, slots=2, common_starts=False, evaluations=1)
    one.perform(KeepTable(whole.table_name), noise_table(1_000, 7))
    found: Outcome = one.perform(whole.order(0, 0), Update({}, 1, {}, {}), weights)
    return found


class BeginningAnew(TwoAgentEnv):
    """Its first episodes are lost after three steps, which every row of both agents says."""

    def reset(self, seed: int | None) -> None:
        self._polls = 0
        super().reset(seed)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        self._polls += 1
        steps = super().poll(timeout)
        if self._polls != 4:
            return steps
        return {group: dataclasses.replace(step, first=np.ones_like(step.first)) for group, step in steps.items()}


@pytest.mark.parametrize("separate_groups", [False, True])
def test_episodes_of_several_agents_are_closed_once(separate_groups: bool) -> None:
    """Whether the agents are handed over together or each in a group of its own: everybody plays a whole episode."""
    found = two_agents(TwoAgentEnv, separate_groups)
    # Seven members in two slots: none of them is done because two rows say that an episode is over.
    assert found.env_steps == 4 * 2 * 8 and found.metrics.lost_steps == 0
    assert [episode.length for episode in found.metrics.episodes] == [8]


@pytest.mark.parametrize("separate_groups", [False, True])
def test_steps_of_an_episode_that_several_agents_lose_are_lost_once(separate_groups: bool) -> None:
    assert two_agents(BeginningAnew, separate_groups).metrics.lost_steps == 2 * 3

"""The graphs under the optimizers of rlcore-sync: what happens to minibatches does not depend on who cuts them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph
from rlcore.runtime.inline import InlineRuntime
from rlcore.sampling.collect import Fragment
from rlcore.testing import LinearPG, TwoAgentEnv
from rlcore_torch import A3C, PPO, PolicyGradient

rlcore_sync = pytest.importorskip("rlcore_sync")

ROWS = 64
MINIBATCH = 16


def make(optimizer: Any, graph: type[PolicyGraph], epochs: int = 2, **config: Any) -> Any:
    """An optimizer of one policy with one evaluator, which is the local one and gives ``ROWS`` rows a round."""
    local = PolicyEvaluator(
        env=functools.partial(TwoAgentEnv, agent_ids=("a", "b"), lengths=(8, 8)),
        policies={"both": graph},
        policy_of=lambda agent_id: "both",
        config=config,
        num_envs=4,
        collect=Fragment(8),
        rng=np.random.SeedSequence(5),
    )
    settings = optimizer.Config(epochs=epochs, minibatch_size=MINIBATCH)
    runtime = InlineRuntime()
    return optimizer(local, EvaluatorSet(runtime, local, []), runtime, settings, ("both",))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("graph", [PolicyGradient, A3C, PPO, LinearPG])
def test_minibatches_mean_the_same_under_both_optimizers(graph: type[PolicyGraph], normalize: bool) -> None:
    one, other = (
        make(optimizer, graph, learning_rate=0.01, normalize_advantages=normalize)
        for optimizer in (rlcore_sync.MultiGPU, rlcore_sync.AllReduce)
    )
    for _ in range(2):
        ours, theirs = one.step(), other.step()
        assert ours.learnt_rows == theirs.learnt_rows == 2 * ROWS
        assert ours.stats["both"] == pytest.approx(theirs.stats["both"], rel=1e-4, abs=1e-5)
    weights = other.get_weights()["both"]
    for name, array in one.get_weights()["both"].items():
        np.testing.assert_allclose(array, weights[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("optimizer", [rlcore_sync.MultiGPU, rlcore_sync.AllReduce])
def test_B122_target_kl_stops_under_both_optimizers(optimizer: Any) -> None:
    one = make(optimizer, PPO, epochs=4, learning_rate=0.05, target_kl=0.01)
    result = one.step()
    assert 1 < result.updates < 4 * ROWS / MINIBATCH
    assert make(optimizer, PPO, epochs=4, learning_rate=0.05).step().updates == 4 * ROWS / MINIBATCH

"""rlcore: distributed reinforcement learning from a small kernel and plugins.

What is exported here is imported when it is first used, so that ``import rlcore`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm as Algorithm
    from rlcore.batch import MultiAgentBatch as MultiAgentBatch
    from rlcore.batch import SampleBatch as SampleBatch
    from rlcore.env import BatchedEnv as BatchedEnv
    from rlcore.env import StepBatch as StepBatch
    from rlcore.evaluator_set import EvaluatorSet as EvaluatorSet
    from rlcore.learner import Learner as Learner
    from rlcore.loading import load_policy as load_policy
    from rlcore.model import BatchedModel as BatchedModel
    from rlcore.policy_evaluator import PolicyEvaluator as PolicyEvaluator
    from rlcore.policy_graph import Actor as Actor
    from rlcore.policy_graph import PolicyGraph as PolicyGraph
    from rlcore.policy_optimizer import PolicyOptimizer as PolicyOptimizer
    from rlcore.policy_optimizer import StepResult as StepResult
    from rlcore.registry import register as register
    from rlcore.runtime.base import Runtime as Runtime
    from rlcore.sampling.collect import Episodes as Episodes
    from rlcore.sampling.collect import Fragment as Fragment
    from rlcore.trainer import Trainer as Trainer

__version__ = "0.1.0"

_HOMES = {
    "Actor": "policy_graph",
    "Algorithm": "algorithm",
    "BatchedEnv": "env",
    "BatchedModel": "model",
    "Episodes": "sampling.collect",
    "EvaluatorSet": "evaluator_set",
    "Fragment": "sampling.collect",
    "Learner": "learner",
    "MultiAgentBatch": "batch",
    "PolicyEvaluator": "policy_evaluator",
    "PolicyGraph": "policy_graph",
    "PolicyOptimizer": "policy_optimizer",
    "Runtime": "runtime.base",
    "SampleBatch": "batch",
    "StepBatch": "env",
    "StepResult": "policy_optimizer",
    "Trainer": "trainer",
    "load_policy": "loading",
    "register": "registry",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazily(__name__, _HOMES)

"""Algorithm: a recipe that names its parts and their defaults. It owns no loss and no loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Algorithm:
    """A recipe, written as a class without code::

        class PPO(Algorithm):
            policy_graph = "ppo"
            optimizer = "multi_gpu"
            policy = {"learning_rate": 3e-4}
            optimizers = {"multi_gpu": {"epochs": 10}, "allreduce": {"epochs": 10}}
            evaluators = {"envs": 8, "fragment": 128}
            settings = {"CartPole-v1": {"policy": {"gamma": 0.98}}}

    Keys mean what they mean in a run's config; ``settings`` holds overrides by environment id, in the same form
    (``policy model optimizers evaluators filter``). Recipes set no stop keys.
    """

    #: Name of the policy graph without the framework: ``ppo`` stands for ``torch.ppo``, ``tf.ppo`` ...
    policy_graph: ClassVar[str]
    #: Name of the optimizer that is used where none is asked for.
    optimizer: ClassVar[str]
    policy: ClassVar[Mapping[str, Any]] = {}
    model: ClassVar[Mapping[str, Any]] = {}
    #: Defaults by optimizer name, so that another optimizer is one changed word.
    optimizers: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    evaluators: ClassVar[Mapping[str, Any]] = {}
    filter: ClassVar[str] = "none"
    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

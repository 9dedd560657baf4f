"""What kind of policy is to be exported, and its settings: as the checkpoint says, or as its policy graph does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlcore import registry
from rlcore.acting.deterministic import DeterministicActor, DeterministicConfig
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.q_actor import QActor
from rlcore.acting.q_config import QConfig
from rlcore.acting.soft import SoftActor, SoftConfig
from rlcore.errors import UserError
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.learning.off_policy import OffPolicyRules
from rlcore.resolve import graph_config
from rlcore.saved_policies import SavedPolicy
from rlcore.trust import check_trust, graph_names
from rlcore.validation import validate_plain


@dataclass(frozen=True)
class ActorCritic:
    """Acts by the mode of a distribution; ``value`` says whether it also has a network of values."""

    model: ModelConfig
    squash: bool
    value: bool


Described = ActorCritic | QConfig | DeterministicConfig | SoftConfig

_CONFIGURED: Mapping[str, type[QConfig] | type[DeterministicConfig] | type[SoftConfig]] = {
    "q": QConfig,
    "deterministic": DeterministicConfig,
    "soft": SoftConfig,
}
_PLANS: Mapping[str, str] = {
    "search": "it searches the moves of a game for each action",
    "planning": "it plans each action with its model of the environment",
}


def described(saved: SavedPolicy, trust: bool) -> Described:
    """What ``saved`` is. ``UserError`` for a policy that a graph of fixed operations cannot compute, or that the kernel
    does not know; what :meth:`rlcore.saved_policies.SavedPolicy.build` raises."""
    if saved.actor is None:
        return _by_graph(saved, trust)
    kind = str(saved.actor.get("kind"))
    if kind in _PLANS:
        raise _planned(saved, kind)
    if kind == "actor_critic":
        model = validate_plain(ModelConfig, saved.actor["model"], "model")
        return ActorCritic(model, bool(saved.actor["squash"]), bool(saved.actor["value"]))
    if kind in _CONFIGURED:
        return validate_plain(_CONFIGURED[kind], saved.actor["config"], "config")
    raise _refusal(saved, f"this rlcore-export knows no actor of kind '{kind}'")


def _by_graph(saved: SavedPolicy, trust: bool) -> Described:
    """Of a policy that has no actor: its graph is imported, its framework with it."""
    name = saved.settings.graph
    check_trust("the checkpoint", graph_names(saved.policy_id, saved.settings, None), trust)
    if saved.settings.model.get("custom") is not None:
        raise _refusal(saved, "what its model (model.custom) computes is known to its framework alone")
    graph_class: type[Any] = registry.load("policy_graph", name)
    if graph_class.searches:
        raise _planned(saved, "search")
    config: Any = graph_config(saved.settings)
    precision = getattr(getattr(config, "model", None), "precision", "float32")
    if precision != "float32":
        raise _refusal(saved, f"it computes in {precision} (model.precision), the exported graph would in float32")
    if issubclass(graph_class, DrawnGraph) and isinstance(config, DrawnConfig):
        return ActorCritic(config.model, config.squash, graph_class.has_value)
    if issubclass(graph_class, OffPolicyRules) and graph_class.actor_class in (QActor, DeterministicActor, SoftActor):
        known: Described = config.acting_part()
        return known
    raise _refusal(
        saved, f"its policy graph {name} offers no actor, and what it computes is known to its framework alone"
    )


def _planned(saved: SavedPolicy, kind: str) -> UserError:
    return _refusal(saved, f"{_PLANS[kind]}, which no fixed sequence of operations does; 'rlcore serve' serves it")


def _refusal(saved: SavedPolicy, why: str) -> UserError:
    return UserError(f"policy '{saved.policy_id}' cannot be exported: {why}")

"""CriticsRules: a policy and critics, in groups of weights that move at rates of their own, or not at every update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.choice import PolicyChoice
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.acting.states import check_state
from rlcore.columns import Columns, length
from rlcore.errors import ConfigError, OptimizerError
from rlcore.learning.off_policy import OffPolicyRules
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import ActOutput, ActRows, State, Weights
from rlcore.schedule import Schedule, value_at


@dataclass(frozen=True)
class Group:
    """The weights ``names``, which follow each other, are moved by ``rule`` at ``learning_rate`` (a schedule of
    environment steps) in place of its own, at every ``delay``-th update. Where a config bounds the norm of gradients,
    it is the group's own that is bounded, unless it is not ``clipped``."""

    name: str
    names: tuple[str, ...]
    rule: UpdateRule
    learning_rate: float | Sequence[Sequence[float]]
    delay: int = 1
    clipped: bool = True

    def due(self, updates: int) -> bool:
        """Whether it moves at the update after so many."""
        return (updates + 1) % self.delay == 0

    def rate(self, env_steps: int) -> float:
        """The learning rate after so many environment steps."""
        return value_at(self.learning_rate, env_steps)


class CriticsRules(OffPolicyRules):
    """Subclasses make ``_architecture`` and say which weights are groups; each group's gradients are clipped alone."""

    _architecture: CriticArchitecture
    _choice: PolicyChoice

    @abstractmethod
    def groups(self) -> list[Group]:
        """Of all weights that are trained, in their order."""

    @abstractmethod
    def _policy_outputs(self, obs: Columns) -> NDArray[np.float32]:
        """Those of the policy's last layer for observations ``[n, ...]``, ``[n, outputs]``."""

    def _further_weights(self) -> Weights:
        """Weights to start from of what is no network, which follow those of the networks."""
        return {}

    def _refuse_precision(self) -> None:
        if self.config.model.precision == "bfloat16":
            raise ConfigError("model.precision: bfloat16: this policy graph has no such option")

    def _network_groups(self, delay: int = 1) -> list[Group]:
        own, architecture = self.config, self._architecture
        rate = own.learning_rate if own.policy_learning_rate is None else own.policy_learning_rate
        critics = [name for critic in architecture.critic_names for name in architecture.critic_shapes(critic)]
        return [
            self._group("policy", architecture.policy_shapes(), rate, delay),
            self._group("critics", critics, own.learning_rate),
        ]

    def _group(
        self, name: str, names: Sequence[str] | Mapping[str, object], learning_rate: Schedule, delay: int = 1
    ) -> Group:
        return Group(name, tuple(names), Adam(0.0, epsilon=self.config.adam_epsilon), learning_rate, delay)

    def update_rule(self) -> UpdateRule:
        """``OptimizerError`` where groups of parameters move apart from each other."""
        if self._moves_apart:
            raise OptimizerError(
                f"{type(self).__name__} moves {', '.join(group.name for group in self.groups())} apart from each "
                "other, by learning rate, delay or max_grad_norm: no one update rule says how"
            )
        return Adam(self._learning_rate, epsilon=self.config.adam_epsilon)

    @property
    def _moves_apart(self) -> bool:
        own = self.config
        rates = {repr((group.learning_rate, group.delay)) for group in self.groups()}
        return own.max_grad_norm is not None or rates != {repr((own.learning_rate, 1))}

    # -- acting

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for ``[n, ...]`` observations; without ``explore`` the likeliest, of a policy with noise its own.

        ``NoLegalActionError`` where an action mask allows nothing, ``UserError`` for a state that does not fit.
        """
        check_state(state, self._choice.draws.state_parts, length(obs))
        return self._choice.choose(self._policy_outputs(obs), obs, state, rows, explore, rng)

    def initial_state(self, n: int) -> State:
        """That of correlated noise, else ``()``."""
        return self._choice.draws.initial_state(n)

    # -- state

    def optimizer_state(self) -> dict[str, Any]:
        """The memory of all groups as ``update_rule().init`` gives it; by group, each in that form, where no one rule
        says how they move."""
        by_group = super().optimizer_state()
        return by_group if self._moves_apart else together(by_group)

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        super().set_optimizer_state(by_groups(state, self.groups()))

    @property
    def acting(self) -> frozenset[str]:
        """The policy's."""
        return frozenset(self._architecture.policy_shapes())


def together(by_group: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The memory of groups that move alike as that of one rule."""
    states = list(by_group.values())
    slots = [slot for slot in states[0] if slot != "step"]
    memory = {slot: {name: own for state in states for name, own in state[slot].items()} for slot in slots}
    return {"step": max(state["step"] for state in states), **memory}


def by_groups(state: Mapping[str, Any], groups: Sequence[Group]) -> Mapping[str, Any]:
    """The other way round; what is by group stays as it is."""
    if "step" not in state:
        return state
    slots = [slot for slot in state if slot != "step"]
    found = {}
    for group in groups:
        memory = {slot: {name: state[slot][name] for name in group.names} for slot in slots}
        found[group.name] = {"step": state["step"], **memory}
    return found

"""GraphSpec: all that makes a policy graph, in a form that can be sent elsewhere and built there."""

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cloudpickle
import gymnasium
import numpy as np

from rlcore.policy_graph import GraphConfig, PolicyGraph, Remark

if TYPE_CHECKING:
    from rlcore.model import BatchedModel

LOGGER = logging.getLogger(__name__)


class RemarkWarning(UserWarning):
    """What a policy graph or an optimizer is given is likely not what was meant."""


def announce(remarks: Iterable[Remark]) -> None:
    """Logs remarks, and issues those that warn as a ``RemarkWarning``."""
    for remark in remarks:
        if remark.warns:
            warnings.warn(remark.text, RemarkWarning, stacklevel=3)
        else:
            LOGGER.info(remark.text)


def _none() -> None:
    return None


@dataclass(frozen=True)
class GraphSpec:
    """All that makes a policy graph, in a form that can be sent elsewhere and built there.

    A spec that was sent imports the graph's framework only when it is looked into: workers that sample with actors
    carry specs without paying for them.
    """

    # Defaults by factory: a default of the class would hide that a spec has not been opened yet.
    graph: type[PolicyGraph]
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    config: GraphConfig
    seed: np.random.SeedSequence
    model: BatchedModel | None = field(default_factory=_none)
    #: A state, as ``get_state`` gives it, to start from in place of fresh weights.
    start: Mapping[str, Any] | None = field(default_factory=_none)

    def build(self, devices: Sequence[str] = ("cpu",)) -> PolicyGraph:
        """The graph, the same one wherever and how often it is built."""
        rng = np.random.default_rng(self.seed)
        graph = self.graph(
            self.observation_space, self.action_space, self.config, rng=rng, devices=devices, model=self.model
        )
        if self.start is not None:
            graph.set_state(dict(self.start))
        return graph

    def announce(self) -> None:
        """Logs the graph's remarks on its spaces, and issues those that warn as a ``RemarkWarning``."""
        announce(self.graph.remarks(self.observation_space, self.action_space, self.config))

    def __getstate__(self) -> dict[str, Any]:
        packed = self.__dict__.get("_packed")
        return {"_packed": cloudpickle.dumps(self.__dict__) if packed is None else packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __getattr__(self, name: str) -> Any:
        packed = self.__dict__.get("_packed")
        if packed is None or name.startswith("_"):
            raise AttributeError(name)
        del self.__dict__["_packed"]
        self.__dict__.update(pickle.loads(packed))
        return getattr(self, name)

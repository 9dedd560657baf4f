"""The buffers of the policies that one optimizer trains, as one replay memory."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlcore import registry
from rlcore.batch import MultiAgentBatch
from rlcore.errors import OptimizerError
from rlcore.graph_spec import GraphSpec
from rlcore.policy_graph import PIECE, PolicyGraph
from rlcore.replay_memory import ReplayMemory
from rlcore.sampling.collect import Collect, Fragment
from rlcore_replay.buffer import Buffer, ReplayBuffer
from rlcore_replay.config import HindsightConfig, ReplayConfig
from rlcore_replay.hindsight import Hindsight, HindsightBuffer
from rlcore_replay.memory_figure import bytes_for, in_words, memory_of_the_machine
from rlcore_replay.priorities import EPSILON
from rlcore_replay.sequences import SequenceBuffer

#: Beside those of the kernel, which the command line shows.
LOGGER = logging.getLogger("rlcore.replay")

#: From this share of the machine's memory on there is a warning.
MUCH = 0.7


class ReplaySizeWarning(UserWarning):
    """A replay memory will hardly fit into the machine."""


class Memory(ReplayMemory):
    """``{policy_id: buffer}``. ``on_lost`` is told where a run goes on without what they held."""

    def __init__(self, buffers: Mapping[str, Buffer], on_lost: Callable[[], None]) -> None:
        self.buffers = dict(buffers)
        self._on_lost = on_lost

    def add(self, batch: MultiAgentBatch) -> None:
        """Every policy's samples go into its buffer."""
        for policy_id, own in batch.items():
            self.buffers[policy_id].add(own)

    def mark(self) -> None:
        for buffer in self.buffers.values():
            buffer.mark()

    def get_marked(self) -> dict[str, Any]:
        return {policy_id: buffer.get_marked() for policy_id, buffer in self.buffers.items()}

    def get_state(self) -> dict[str, Any]:
        """The same as it is now."""
        return {policy_id: buffer.get_state() for policy_id, buffer in self.buffers.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        for policy_id, own in state.items():
            self.buffers[policy_id].set_state(own)

    def lost(self) -> None:
        self._on_lost()


def build_buffers(
    specs: Mapping[str, GraphSpec], graphs: Mapping[str, PolicyGraph], config: ReplayConfig, collect: Collect
) -> dict[str, Buffer]:
    """A buffer for each policy, of the kind that its graph learns from.

    Raises ``OptimizerError`` for settings that do not fit the graph or the samples, and where the machine has less
    memory than they take.
    """
    check_size(specs, config)
    buffers = {}
    for i, (policy_id, graph) in enumerate(graphs.items()):
        rng = np.random.default_rng([config.seed, 1 + i])
        buffers[policy_id] = _buffer(policy_id, specs[policy_id], graph, config, collect, rng)
    return buffers


def _buffer(
    policy_id: str,
    spec: GraphSpec,
    graph: PolicyGraph,
    config: ReplayConfig,
    collect: Collect,
    rng: np.random.Generator,
) -> Buffer:
    prioritized = config.prioritized
    alpha = None if prioritized is None else prioritized.alpha
    epsilon = EPSILON if prioritized is None else prioritized.epsilon
    if graph.minibatch_unit is PIECE:
        if config.hindsight is not None:
            raise OptimizerError(f"policy '{policy_id}' learns from pieces, which hindsight cannot tell again")
        length = _sequence_length(policy_id, config, collect)
        return SequenceBuffer(max(1, config.capacity // length), length, alpha=alpha, epsilon=epsilon)
    if config.hindsight is not None:
        if graph.lookahead:
            raise OptimizerError(f"policy '{policy_id}': hindsight needs single steps; set policy.n_step to 1")
        hindsight = _hindsight(config.hindsight, spec.config.discount)
        return HindsightBuffer(config.capacity, hindsight, rng, alpha=alpha, epsilon=epsilon)
    return ReplayBuffer(config.capacity, alpha=alpha, epsilon=epsilon)


def _sequence_length(policy_id: str, config: ReplayConfig, collect: Collect) -> int:
    steps = collect.steps if isinstance(collect, Fragment) else None
    if config.sequence_length is None:
        if steps is None:
            raise OptimizerError(
                f"policy '{policy_id}' learns from pieces: sample fragments (evaluators.fragment), or say how long the "
                "longest episode is (optimizer.sequence_length)"
            )
        return steps
    if steps is not None and steps > config.sequence_length:
        raise OptimizerError(
            f"fragments of {steps} steps do not fit into sequences of {config.sequence_length}: lower "
            "evaluators.fragment, or leave optimizer.sequence_length out"
        )
    return config.sequence_length


def _hindsight(config: HindsightConfig, gamma: float) -> Hindsight:
    terminated = None if config.terminated is None else registry.import_object(config.terminated)
    return Hindsight(registry.import_object(config.reward), config.strategy, config.goals, terminated, gamma)


def check_size(specs: Mapping[str, GraphSpec], config: ReplayConfig) -> None:
    """Says how much memory the buffers take; ``OptimizerError`` where the machine has less in any case."""
    machine, least, most = memory_of_the_machine(), 0, 0
    for policy_id, spec in specs.items():
        figure = bytes_for(spec, config.capacity, prioritized=config.prioritized is not None)
        LOGGER.info("replay of policy '%s': %s rows, %s", policy_id, f"{config.capacity:,}", figure)
        least, most = least + figure.least, most + figure.most
    if machine is None or most <= MUCH * machine:
        return
    what = f"{config.capacity:,} rows of {', '.join(specs)} take "
    if least > machine:
        raise OptimizerError(
            f"optimizer.capacity: {what}{in_words(least)} at least; this machine has {in_words(machine)} of memory"
        )
    warnings.warn(
        f"optimizer.capacity: {what}up to {in_words(most)} of the {in_words(machine)} of memory here",
        ReplaySizeWarning,
        stacklevel=3,
    )

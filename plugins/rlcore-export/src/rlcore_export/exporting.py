"""Exporting a trained policy as an ONNX model, and comparing the model with the policy before it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnx
from numpy.typing import NDArray

import rlcore
from rlcore.acting.masks import is_mask, mask_for
from rlcore.batch import ACTIONS, OBS, STATE_IN
from rlcore.columns import Columns, leaf_spaces, to_table
from rlcore.errors import RlcoreError, UserError
from rlcore.loading import TrainedPolicy
from rlcore.sampling.filters import filtered_space
from rlcore.saved_policies import SavedPolicy, read_policy
from rlcore.spaces_json import space_to_json
from rlcore_export.acted import action_outputs
from rlcore_export.described import described
from rlcore_export.nodes import GraphBuilder, Value
from rlcore_export.observed import filtered, mask_flags, observation_inputs
from rlcore_export.policies import Seen, acting

#: The output with what the policy acts by, and what the names of the recurrent state after acting begin with.
PARAMETERS, STATE_OUT = "parameters", "state_out"

#: How far the model and the policy may be apart, of numbers around 1 and in relation to larger ones.
TOLERANCE = 1e-5
_CHECKED_ROWS, _CHECKED_STEPS = 4, 3


class ExportError(RlcoreError):
    """The exported model does not compute what the policy does: a fault of the program."""


def export_onnx(path: Path | str, out: Path | str, *, policy: str | None = None, trust: bool = False) -> Path:
    """Writes the policy of a run or checkpoint to the file ``out``, which may not exist yet, and returns that.

    What is written has been compared with the policy. ``policy`` names one of several. Raises ``UserError`` where the
    file exists, for a policy that cannot be exported, and whatever :func:`rlcore.load_policy` raises.
    """
    out = Path(out)
    if out.exists():
        raise UserError(f"{out} exists already; name another file with --out")
    saved = read_policy(path, policy)
    model = onnx_model(saved, trust=trust)
    check_model(model, TrainedPolicy(saved, saved.build(trust=trust)))
    out.parent.mkdir(parents=True, exist_ok=True)
    # Under its own name it is always whole.
    beside = out.with_name(f".{out.name}.part")
    beside.write_bytes(model.SerializeToString())
    beside.rename(out)
    return out


def onnx_model(saved: SavedPolicy, *, trust: bool = False) -> onnx.ModelProto:
    """The policy as a graph of operations, from raw observations to the environment's actions, without exploring.

    ================ ==================== ============================================================================
    input            type and shape
    ================ ==================== ============================================================================
    ``obs``          the space's          raw observations; ``obs.LEAF`` of nested spaces, masks among them
    ``state_in.0``   float32 [n, units]   the recurrent state, zeros where an episode begins; 0 is the output of an
                                          LSTM, 1 its cell; none where the policy has no memory
    ================ ==================== ============================================================================

    ================ ==================== ============================================================================
    output           type and shape
    ================ ==================== ============================================================================
    ``actions``      the space's          the environment's actions; ``actions.LEAF`` of nested spaces
    ``parameters``   float32 [n, k]       what they are taken from, before any mask: logits, values of actions, means
                                          (and what stands behind them) before tanh and scaling
    ``state_out.0``  float32 [n, units]   the recurrent state to hand in with the next observations
    ================ ==================== ============================================================================

    Where a mask allows nothing, actions are the first ones. Raises ``UserError`` for a policy that cannot be exported.
    """
    policy = described(saved, trust)
    graph = GraphBuilder()
    observation_space, action_space = saved.spaces
    raw = observation_inputs(graph, observation_space)
    filters = saved.filters()
    seen_space = filtered_space(observation_space, filters)
    mask = mask_for(seen_space, action_space)
    seen = Seen(
        seen_space,
        action_space,
        filtered(graph, filters, raw),
        None if mask is None else mask_flags(graph, mask, raw, observation_space),
        lambda sizes: _state_inputs(graph, sizes),
    )
    done = acting(graph, policy, seen, saved.weights)
    action_outputs(graph, action_space, done.actions)
    graph.output(PARAMETERS, done.parameters, np.float32, [done.width])
    for i, part in enumerate(done.state):
        graph.output(f"{STATE_OUT}.{i}", part, np.float32, [_units(policy)])
    model = graph.model(_metadata(saved), f"policy '{saved.policy_id}' of rlcore: obs to actions, deterministic")
    onnx.checker.check_model(model, full_check=True)
    return model


def _units(policy: Any) -> int:
    return int(policy.model.lstm)


def _state_inputs(graph: GraphBuilder, sizes: Sequence[int]) -> list[Value]:
    return [graph.input(f"{STATE_IN}.{i}", np.float32, [units]) for i, units in enumerate(sizes)]


def _metadata(saved: SavedPolicy) -> Mapping[str, str]:
    return {
        "rlcore_version": rlcore.__version__,
        "policy": saved.policy_id,
        "weights_version": str(saved.weights_version),
        "observation_space": json.dumps(space_to_json(saved.spaces[0])),
        "action_space": json.dumps(space_to_json(saved.spaces[1])),
    }


# -- comparing


def check_model(model: onnx.ModelProto, policy: TrainedPolicy) -> None:
    """Acts with both upon drawn observations, over some steps. ``ExportError`` where their actions differ by more than
    ``TOLERANCE``, unless two actions are worth the same to the policy."""
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(model)
    rng = np.random.default_rng(0)
    memory = policy.begin(_CHECKED_ROWS)
    state = {
        value.name: np.zeros((_CHECKED_ROWS, value.type.tensor_type.shape.dim[1].dim_value), np.float32)
        for value in model.graph.input
        if value.name.startswith(f"{STATE_IN}.")
    }
    names = [value.name for value in model.graph.output]
    for _ in range(_CHECKED_STEPS):
        obs = sample_observations(policy.observation_space, _CHECKED_ROWS, rng)
        found = dict(zip(names, session.run(None, {**to_table(OBS, obs), **state}), strict=True))
        actions, memory = policy.act_on(obs, memory)
        for name, wanted in to_table(ACTIONS, actions).items():
            _compare(name, found[name], wanted, _undecided(found[PARAMETERS]))
        state = {name: found[name.replace(STATE_IN, STATE_OUT)] for name in state}


def _compare(name: str, found: NDArray[Any], wanted: NDArray[Any], undecided: NDArray[np.bool_]) -> None:
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        kinds = [f"{array.dtype} {array.shape}" for array in (found, wanted)]
        raise ExportError(f"{name} of the exported model are {kinds[0]}, not {kinds[1]}")
    close = np.isclose(found.astype(np.float64), wanted.astype(np.float64), rtol=TOLERANCE, atol=TOLERANCE)
    if wanted.dtype.kind == "f":
        undecided = np.zeros(len(wanted), np.bool_)
    if not (close.reshape(len(wanted), -1).all(axis=1) | undecided).all():
        raise ExportError(f"{name} of the exported model are {found.tolist()}, the policy's {wanted.tolist()}")


def _undecided(parameters: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Of which rows two numbers are as good as equal: rounding then decides between discrete actions."""
    ordered = np.sort(parameters, axis=1)
    close = np.diff(ordered, axis=1) <= TOLERANCE * np.maximum(np.abs(ordered[:, 1:]), 1.0)
    return np.asarray(close.any(axis=1))


def sample_observations(space: gymnasium.Space[Any], n: int, rng: np.random.Generator) -> Columns:
    """Observations ``[n, ...]`` of a space, drawn from the generator; masks allow everything.

    Boxes without bounds give normal numbers, as a filter would.
    """
    leaves = {leaf: _sampled(child, n, rng, is_mask(leaf)) for leaf, child in leaf_spaces(space).items()}
    return leaves[""] if set(leaves) == {""} else leaves


def _sampled(space: gymnasium.Space[Any], n: int, rng: np.random.Generator, full: bool) -> NDArray[Any]:
    if full:
        return np.ones((n, *(space.shape or ())), space.dtype)
    space.seed(int(rng.integers(2**31)))
    return np.stack([np.asarray(space.sample(), space.dtype) for _ in range(n)])

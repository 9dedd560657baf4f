"""Datasets of Minari, as they lie on this machine; ``minari download NAME`` gets one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from rlcore.batch import (
    ACTIONS,
    AGENT_ID,
    BOOTSTRAP,
    ENV_STEP,
    EPS_ID,
    LAST_OBS,
    LENGTH,
    OBS,
    POLICY_VERSION,
    REWARDS,
    SLOT,
    START,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
    T,
)
from rlcore.columns import Array, Columns, concatenate, leaf_spaces, to_table
from rlcore.errors import UserError
from rlcore_offline.dataset import Dataset
from rlcore_offline.network_actions import from_env


def read_minari(name: str) -> Dataset:
    """The dataset of that name, such as ``D4RL/pen/human-v2``. ``UserError`` without Minari, or without the dataset.

    Episodes that are recorded without an end count as truncated there.
    """
    try:
        import minari
    except ImportError as error:
        raise UserError(f"datasets of Minari need it: pip install 'rlcore-offline[minari]' ({error})") from error
    try:
        dataset = minari.load_dataset(name)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise UserError(
            f"there is no Minari dataset '{name}' on this machine ({error}): minari download {name}"
        ) from error
    spaces = dataset.observation_space, dataset.action_space
    env = getattr(dataset.env_spec, "id", None) or name
    return Dataset(joined(list(dataset.iterate_episodes()), *spaces), spaces, str(env))


def joined(
    episodes: Sequence[Any], observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> SampleBatch:
    """Episodes with ``observations`` ``[T + 1, ...]``, ``actions`` ``[T, ...]``, ``rewards``, ``terminations`` and
    ``truncations`` ``[T]`` as one batch, a piece each. ``UserError`` where there is none."""
    episodes = [one for one in episodes if len(one.rewards)]
    if not episodes:
        raise UserError("the dataset has no episodes")
    lengths = np.array([len(one.rewards) for one in episodes], np.int64)
    t = np.concatenate([np.arange(length) for length in lengths])
    seen = [_leaves(one.observations, observation_space) for one in episodes]
    obs = _concatenated([{leaf: array[:-1] for leaf, array in own.items()} for own in seen])
    last_obs = _concatenated([{leaf: array[-1:] for leaf, array in own.items()} for own in seen])
    actions = from_env(_concatenated([_leaves(one.actions, action_space) for one in episodes]), action_space)
    last = np.cumsum(lengths) - 1
    terminated = np.concatenate([np.asarray(one.terminations, np.bool_) for one in episodes])
    truncated = np.zeros(len(t), np.bool_)
    truncated[last] = ~terminated[last]
    rows = {
        **to_table(OBS, obs),
        **to_table(ACTIONS, actions),
        REWARDS: np.concatenate([np.asarray(one.rewards, np.float32) for one in episodes]),
        TERMINATED: terminated,
        TRUNCATED: truncated,
        T: t.astype(np.int32),
        ENV_STEP: t,
    }
    cuts = {
        START: np.cumsum(lengths) - lengths,
        LENGTH: lengths,
        EPS_ID: np.arange(len(episodes)),
        BOOTSTRAP: ~terminated[last],
        **{name: np.zeros(len(episodes), np.int64) for name in (SLOT, AGENT_ID, POLICY_VERSION)},
        **to_table(LAST_OBS, last_obs),
    }
    return SampleBatch(rows, cuts)


def _leaves(value: Any, space: gymnasium.Space[Any]) -> dict[str, Array]:
    """By dotted name, in the dtypes of the space."""
    return {leaf: np.asarray(_at(value, leaf), child.dtype) for leaf, child in leaf_spaces(space).items()}


def _at(value: Any, leaf: str) -> Any:
    """What stands under a dotted name in nested dictionaries and tuples."""
    for name in leaf.split(".") if leaf else ():
        value = value[name] if isinstance(value, Mapping) else value[int(name)]
    return value


def _concatenated(parts: Sequence[dict[str, Array]]) -> Columns:
    joined = concatenate(parts)
    assert isinstance(joined, dict)
    return joined[""] if set(joined) == {""} else joined

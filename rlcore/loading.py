"""Trained policies out of a checkpoint, to act on raw observations without an environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore.acting.observations import check_values, with_batch_axis
from rlcore.acting.to_env import to_env
from rlcore.columns import Columns, column_name, leaf_spaces, length, take
from rlcore.errors import CheckpointError, SpaceError, UserError
from rlcore.policy_graph import Actor, ActRows, PolicyGraph, State
from rlcore.results import checkpoint_folder
from rlcore.sampling.filters import ObservationFilter
from rlcore.saved_policies import SavedPolicy, read_policies
from rlcore.seeding import Purpose, seed_for


def load_policy(
    path: Path | str,
    *,
    policy: str | None = None,
    framework: str | None = None,
    seed: int = 0,
    trust: bool = False,
) -> TrainedPolicy:
    """The trained policy in a checkpoint, or in the last one of a run folder.

    ``policy`` names one of several. It acts without the framework that it was trained in where it can; ``framework``
    asks for a graph of that one. ``seed`` is for actions that are drawn. Nothing in a checkpoint is executed; import
    paths in it are followed only with ``trust``.

    Raises ``CheckpointError`` where the checkpoint cannot be read or has no such policy, ``PluginError`` where a graph
    that is needed is not installed.
    """
    saved = read_policies(path)
    if policy is None and len(saved) > 1:
        names = ", ".join(sorted(saved))
        raise UserError(f"{checkpoint_folder(path)} holds several policies; name one of them: {names}")
    name = policy if policy is not None else next(iter(saved))
    if name not in saved:
        raise CheckpointError(f"{checkpoint_folder(path)} has no policy '{name}', only: {', '.join(sorted(saved))}")
    return TrainedPolicy(saved[name], saved[name].build(framework, trust), seed)


class TrainedPolicy:
    """A policy with its filters and its memory::

        policy = rlcore.load_policy("runs/cartpole")
        action = policy.act(obs)          # obs and action as the environment has them
        policy.reset()                    # a new episode begins

    One observation gives one action; several, stacked along a first axis, give as many. Which of the two was given is
    told by the shapes of ``observation_space`` and never guessed.
    """

    def __init__(self, saved: SavedPolicy, policy: Actor | PolicyGraph, seed: int = 0) -> None:
        self.observation_space, self.action_space = saved.spaces
        self.weights_version = saved.weights_version
        self._policy = policy
        self._filters: dict[str, ObservationFilter] = saved.filters()
        self._rng = np.random.default_rng(seed_for(seed, Purpose.ACTING))
        self._state: State = ()
        self._t: np.ndarray[Any, np.dtype[np.int64]] | None = None

    def act(self, obs: Any, *, explore: bool = False) -> Any:
        """The action for ``obs``, or the actions for several: deterministic, unless ``explore`` draws them.

        ``obs`` has the structure that the environment gives: an array, or nested dicts and tuples of arrays. Actions
        come likewise: an int for one Discrete action, else arrays. Raises ``SpaceError`` where shapes, keys or values
        are not those of the space or a value is not finite, ``UserError`` where the number of observations changes
        without ``reset`` and the policy has a memory.
        """
        try:
            batch, single = with_batch_axis(_flat(self.observation_space, obs), self.observation_space)
            check_values(batch, self.observation_space)
        except ValueError as error:
            raise SpaceError(str(error)) from error
        n = length(batch)
        if self._t is not None and len(self._t) != n:
            if self._state:
                raise UserError(f"the policy was acting for {len(self._t)} observations, not {n}: call reset() first")
            self._t = None
        if self._t is None:
            self._t, self._state = np.zeros(n, np.int64), self._policy.initial_state(n)
        rows = ActRows(np.arange(n), np.zeros(n, np.int64), self._t, self._t == 0)
        output = self._policy.act(self._normalise(batch), self._state, rows=rows, explore=explore, rng=self._rng)
        self._state, self._t = output.state, self._t + 1
        actions = to_env(output.actions, self.action_space)
        return _nested(self.action_space, take(actions, 0) if single else actions, single)

    def reset(self) -> None:
        """Forgets the episode, or all of them: the next observations open new ones."""
        self._state, self._t = (), None

    def _normalise(self, obs: Columns) -> Columns:
        if isinstance(obs, dict):
            return {leaf: self._filters[leaf].normalise(array) for leaf, array in obs.items()}
        return self._filters[""].normalise(obs)


def _flat(space: gymnasium.Space[Any], obs: Any) -> Columns:
    """``obs`` as one array, or by dotted leaf. ``SpaceError`` for a key that is missing or unknown."""
    if set(leaf_spaces(space)) == {""}:
        return np.asarray(obs)
    leaves: dict[str, Any] = {}
    _walk(space, obs, "", leaves)
    return leaves


def _walk(space: gymnasium.Space[Any], obs: Any, at: str, leaves: dict[str, Any]) -> None:
    if isinstance(space, spaces.Dict):
        _check_keys(set(space.spaces), set(obs) if isinstance(obs, Mapping) else None, at, "keys")
        children = {key: (child, obs[key]) for key, child in space.spaces.items()}
    elif isinstance(space, spaces.Tuple):
        given = set(range(len(obs))) if isinstance(obs, tuple | list) else None
        _check_keys(set(range(len(space.spaces))), given, at, "items")
        children = {str(i): (child, obs[i]) for i, child in enumerate(space.spaces)}
    else:
        leaves[at] = np.asarray(obs)
        return
    for key, (child, part) in children.items():
        _walk(child, part, column_name(at, str(key)), leaves)


def _check_keys(expected: set[Any], given: set[Any] | None, at: str, what: str) -> None:
    if given is None:
        raise SpaceError(f"observation {at}: expected the {what} {sorted(expected)}")
    if given != expected:
        raise SpaceError(f"observation {at}: {what} {sorted(given, key=str)}, expected {sorted(expected)}")


def _nested(space: gymnasium.Space[Any], actions: Columns, single: bool, at: str = "") -> Any:
    """Actions by leaf in the structure of the space."""
    if isinstance(space, spaces.Dict):
        return {key: _nested(child, actions, single, column_name(at, str(key))) for key, child in space.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(_nested(child, actions, single, column_name(at, str(i))) for i, child in parts)
    array = actions[at] if isinstance(actions, dict) else actions
    # Taking one row of a column of numbers gives a number, where a Box has arrays.
    return int(array) if single and isinstance(space, spaces.Discrete) else np.asarray(array)

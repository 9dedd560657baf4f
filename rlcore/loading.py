"""Trained policies out of a checkpoint, to act on raw observations without an environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.observations import check_values, with_batch_axis
from rlcore.acting.to_env import to_env
from rlcore.columns import Columns, leaf_spaces, length, take
from rlcore.errors import SpaceError, UserError
from rlcore.policy_graph import Actor, ActRows, PolicyGraph, State
from rlcore.sampling.filters import ObservationFilter
from rlcore.saved_policies import SavedPolicy, read_policy
from rlcore.seeding import Purpose, seed_for
from rlcore.structured import by_leaf, in_structure


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
    saved = read_policy(path, policy)
    return TrainedPolicy(saved, saved.build(framework, trust), seed)


class Memory(NamedTuple):
    """What a policy remembers of ``n`` episodes: its recurrent ``state``, parts ``[n, ...]``, and the number ``t`` of
    the step that each is at, int64 ``[n]``."""

    state: State
    t: NDArray[np.int64]


class TrainedPolicy:
    """A policy with its filters and its memory::

        policy = rlcore.load_policy("runs/cartpole")
        action = policy.act(obs)          # obs and action as the environment has them
        policy.reset()                    # a new episode begins

    One observation gives one action; several, stacked along a first axis, give as many. Which of the two was given is
    told by the shapes of ``observation_space`` and never guessed.

    Whoever keeps the memory of many episodes himself, such as a server, calls ``read``, ``begin`` and ``act_on``, which
    change nothing here.
    """

    def __init__(self, saved: SavedPolicy, policy: Actor | PolicyGraph, seed: int = 0) -> None:
        self.observation_space, self.action_space = saved.spaces
        self.policy_id = saved.policy_id
        self.weights_version = saved.weights_version
        self._policy = policy
        self._filters: dict[str, ObservationFilter] = saved.filters()
        self._rng = np.random.default_rng(seed_for(seed, Purpose.ACTING))
        self._memory: Memory | None = None

    def act(self, obs: Any, *, explore: bool = False) -> Any:
        """The action for ``obs``, or the actions for several: deterministic, unless ``explore`` draws them.

        ``obs`` has the structure that the environment gives: an array, or nested dicts and tuples of arrays. Actions
        come likewise: an int for one Discrete action, else arrays. Raises ``SpaceError`` where shapes, keys or values
        are not those of the space or a value is not finite, ``UserError`` where the number of observations changes
        without ``reset`` and the policy has a memory.
        """
        batch, single = self.read(obs)
        n = length(batch)
        if self._memory is not None and len(self._memory.t) != n:
            if self._memory.state:
                raise UserError(
                    f"the policy was acting for {len(self._memory.t)} observations, not {n}: call reset() first"
                )
            self._memory = None
        memory = self.begin(n) if self._memory is None else self._memory
        actions, self._memory = self.act_on(batch, memory, explore=explore)
        return in_structure(self.action_space, take(actions, 0) if single else actions, single)

    def reset(self, rows: Sequence[int] | NDArray[Any] | None = None) -> None:
        """Forgets the episode, or all of them: the next observations open new ones.

        Of several episodes side by side ``rows`` names those that begin anew, by numbers or by a flag for each; the
        others go on. ``UserError`` for rows that there are not.
        """
        if rows is None or self._memory is None:
            self._memory = None
            return
        given, n = np.asarray(rows), len(self._memory.t)
        flags = given.dtype == np.bool_ and given.shape == (n,)
        numbers = given.ndim == 1 and (not given.size or given.dtype.kind in "iu")
        if not flags and not (numbers and ((given >= 0) & (given < n)).all()):
            raise UserError(f"rows are numbers below {n}, or a flag for each of {n} episodes, not {rows!r}")
        fresh = np.zeros(n, np.bool_)
        fresh[given if flags else given.astype(np.int64)] = True
        begun = self.begin(n)
        state = tuple(
            np.where(fresh.reshape(n, *[1] * (old.ndim - 1)), new, old)
            for new, old in zip(begun.state, self._memory.state, strict=True)
        )
        self._memory = Memory(state, np.where(fresh, 0, self._memory.t))

    @property
    def remembers(self) -> bool:
        """Whether actions depend on what came before in an episode."""
        return bool(self._policy.initial_state(1))

    def read(self, obs: Any) -> tuple[Columns, bool]:
        """Observations in the structure of the space as columns ``[n, ...]`` of its dtypes, and whether it was one
        alone. ``SpaceError`` for what is none."""
        try:
            batch, single = with_batch_axis(by_leaf(self.observation_space, obs), self.observation_space)
            check_values(batch, self.observation_space)
            typed = self._typed(batch)
            if typed is not batch:  # what is too large for the type has become infinite
                check_values(typed, self.observation_space)
        except ValueError as error:
            raise SpaceError(str(error)) from error
        return typed, single

    def begin(self, n: int) -> Memory:
        """The memory that ``n`` episodes begin with."""
        return Memory(self._policy.initial_state(n), np.zeros(n, np.int64))

    def act_on(self, obs: Columns, memory: Memory, *, explore: bool = False) -> tuple[Columns, Memory]:
        """The environment's actions by leaf, ``[n, ...]``, for what ``read`` gave, and the memory after them."""
        n = length(obs)
        rows = ActRows(np.arange(n), np.zeros(n, np.int64), memory.t, memory.t == 0)
        output = self._policy.act(self._normalise(obs), memory.state, rows=rows, explore=explore, rng=self._rng)
        return to_env(output.actions, self.action_space), Memory(output.state, memory.t + 1)

    def _typed(self, obs: Columns) -> Columns:
        """In the dtypes of the space, as environments hand them over, so that numbers are rounded alike; ``obs`` itself
        where it has them."""
        types = {leaf: space.dtype for leaf, space in leaf_spaces(self.observation_space).items()}
        arrays = obs if isinstance(obs, dict) else {"": obs}
        if all(array.dtype == types[leaf] for leaf, array in arrays.items()):
            return obs
        with np.errstate(over="ignore"):
            cast = {leaf: np.asarray(array, types[leaf]) for leaf, array in arrays.items()}
        return cast if isinstance(obs, dict) else cast[""]

    def _normalise(self, obs: Columns) -> Columns:
        if isinstance(obs, dict):
            return {leaf: self._filters[leaf].normalise(array) for leaf, array in obs.items()}
        return self._filters[""].normalise(obs)

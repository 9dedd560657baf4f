"""Recording what a trained policy does: whole episodes, with observations as the environment gave them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.batch import ACTION_LOGP, REWARDS, SampleBatch
from rlcore.columns import Columns
from rlcore.config import parse_config
from rlcore.errors import UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Actor, ActOutput, ActRows, PolicyGraph, Progress, State, Weights
from rlcore.sampling.collect import Episodes
from rlcore.sampling.filters import ObservationFilter
from rlcore.saved_policies import SavedPolicy, read_policies
from rlcore.seeding import Purpose, seed_for
from rlcore.trust import check_trust, env_names
from rlcore_offline.dataset import DatasetWriter

#: Episodes of one part of a dataset: what is in memory at once.
EPISODES_AT_ONCE = 64


class Behind(Actor):
    """A policy behind its filters, which sees raw observations, so that those are what is recorded."""

    lookahead = 0
    postprocess = None

    def __init__(self, policy: Actor | PolicyGraph, filters: Mapping[str, ObservationFilter]) -> None:
        self._policy, self._filters = policy, filters

    def initial_state(self, n: int) -> State:
        return self._policy.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        if isinstance(obs, dict):
            seen: Columns = {leaf: one.normalise(obs[leaf]) for leaf, one in self._filters.items()}
        else:
            seen = self._filters[""].normalise(obs)
        return self._policy.act(seen, state, rows=rows, explore=explore, rng=rng)

    def on_progress(self, progress: Progress) -> None:
        """It learns no more."""

    def call(self, utility: str, *args: Any) -> Any:
        return self._policy.call(utility, *args)

    def set_weights(self, weights: Weights) -> None:
        self._policy.set_weights(weights)

    def get_state(self) -> dict[str, Any]:
        return self._policy.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self._policy.set_state(state)


def record_run(
    path: Path | str,
    out: Path | str,
    episodes: int,
    *,
    explore: bool = True,
    envs: int = 8,
    seed: int = 0,
    trust: bool = False,
) -> dict[str, Any]:
    """Plays ``episodes`` whole episodes with the policy of a run or checkpoint, and writes them as a dataset ``out``.

    With ``explore`` actions are drawn, as in training, and their log-probabilities are recorded. Gives ``episodes rows
    episode_return_mean``. Raises ``UserError`` for several policies or agents, a folder that exists, and what reading
    the run raises.
    """
    saved = _only(path)
    assert saved.run is not None
    config = parse_config(saved.run.config)
    check_trust(f"checkpoint {saved.run.folder}", env_names(config), trust)
    writer = DatasetWriter(out, saved.spaces, config.env)
    evaluator = PolicyEvaluator(
        env=config.env,
        env_settings=config.env_settings,
        graph=Behind(saved.build(trust=trust), saved.filters()),
        num_envs=min(envs, episodes),
        collect=Episodes(min(episodes, EPISODES_AT_ONCE)),
        explore=explore,
        rng=seed_for(seed, Purpose.ACTING),
    )
    returns, rows, left = 0.0, 0, episodes
    try:
        while left:
            batch = evaluator.sample()
            assert isinstance(batch, SampleBatch)
            batch = batch.take_pieces(np.arange(min(left, batch.pieces)))
            if not explore:
                # What is noted is how likely the actions were to be drawn, and nobody drew them.
                batch = SampleBatch({name: own for name, own in batch.rows.items() if name != ACTION_LOGP}, batch.cuts)
            writer.write(batch)
            rows, left = rows + len(batch), left - batch.pieces
            returns += float(batch[REWARDS].sum(dtype=np.float64))
    finally:
        evaluator.close()
    return {"episodes": episodes, "rows": rows, "episode_return_mean": returns / episodes}


def _only(path: Path | str) -> SavedPolicy:
    saved = read_policies(path)
    if len(saved) != 1:
        raise UserError(f"{path} has several policies ({', '.join(sorted(saved))}); runs of one can be recorded")
    (one,) = saved.values()
    if one.run is None:
        raise UserError(f"{path} is a checkpoint of no run: its environment is not known")
    return one

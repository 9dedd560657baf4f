"""Small policies of every kind, trained for a moment, and the environments that they act in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from support.runs import linear

from rlcore.trainer import Trainer

Episode = list[dict[str, Any]]
#: The steps of an episode.
EPISODE = 7


class Watched(gymnasium.Env[Any, Any]):
    """Numbers that drift, of very different sizes, and rewards that depend on the actions; notes what is done in it."""

    observation_space: Any = Box(-np.inf, np.inf, (3,), np.float32)
    action_space: Any = Discrete(3, start=1)
    #: What was seen and done, and the return of each episode, of all copies.
    episodes: ClassVar[list[Episode]] = []
    returns: ClassVar[list[float]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t, self.earned, self.episode = 0, 0.0, []
        Watched.episodes.append(self.episode)
        return self._look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.episode.append({"obs": self._seen, "action": _listed(action)})
        reward = float(np.tanh(np.sum([np.sum(part) for part in _parts(action)]) - self.numbers[1]))
        self.t, self.earned = self.t + 1, self.earned + reward
        over = self.t == EPISODE
        if over:
            Watched.returns.append(self.earned)
        return self._look(), reward, over, False, {}

    def _look(self) -> Any:
        self.numbers = self.np_random.normal([50.0, 0.0, -3.0], [20.0, 1.0, 1e-2]).astype(np.float32)
        obs = self.observe()
        self._seen = _listed(obs)
        return obs

    def observe(self) -> Any:
        return self.numbers


class Scaled(Watched):
    """Actions in a box that the mean of a Gaussian may well leave."""

    action_space = Box(np.array([-3.0, -0.02]), np.array([1.0, 0.03]), dtype=np.float64)


class Masked(Watched):
    """Some actions are forbidden, other ones at each step, and taking one fails."""

    observation_space = Dict(
        numbers=Box(-np.inf, np.inf, (3,), np.float32),
        where=Tuple([Discrete(4, start=2), Box(0.0, 1.0, (), np.float64)]),
        action_mask=Box(0, 1, (3,), np.int8),
    )

    def observe(self) -> Any:
        self.mask = np.zeros(3, np.int8)
        self.mask[self.np_random.choice(3, 2, replace=False)] = 1
        where = (int(self.np_random.integers(2, 6)), np.asarray(self.np_random.random()))
        return {"numbers": self.numbers, "where": where, "action_mask": self.mask}

    def step(self, action: Any) -> Any:
        assert self.mask[action - 1]
        return super().step(action)


class Several(Watched):
    """Actions of several parts."""

    action_space = Dict(b=MultiDiscrete([2, 3], start=[0, 4]), a=Box(-1.0, 0.5, (2,), np.float32))


def _parts(action: Any) -> list[Any]:
    return list(action.values()) if isinstance(action, dict) else [action]


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_listed(part) for part in value]
    return np.asarray(value).tolist()


def trained(folder: Path, **config: Any) -> Path:
    """A checkpoint of a policy that was trained for three iterations; ``config`` has dotted keys."""
    changes = {"framework": "torch", "filter": "mean_std", "evaluators.fragment": 20, **config}
    algorithm = changes.pop("algorithm", "ppo")
    with Trainer(linear({"algorithm": algorithm, **changes})) as trainer:
        for _ in range(3):
            trainer.step()
        return trainer.save(folder)


SMALL = {"minibatch_size": 8, "learnt_per_sampled": 2.0, "learning_starts": 16, "rounds": 3, "capacity": 64}
OFF_POLICY: dict[str, Any] = {"optimizer": {"name": "replay", **SMALL}, "evaluators.fragment": 8}
SEQUENCES = {**OFF_POLICY, "optimizer": {**OFF_POLICY["optimizer"], "sequence_length": 8}}
#: By name, what there is to tell apart about policies that act without a framework.
CASES: dict[str, dict[str, Any]] = {
    "discrete": {"env": Watched},
    "recurrent": {"env": Watched, "model.lstm": 8},
    "gaussian": {"env": Scaled},
    "squashed": {"env": Scaled, "policy.squash": True},
    "masks": {"env": Masked},
    "masks and memory": {"env": Masked, "model.lstm": 8, "model.shared_value": True},
    "several actions": {"env": Several},
    "q": {"env": Watched, "algorithm": "dqn", **OFF_POLICY},
    "recurrent q": {"env": Masked, "algorithm": "dqn", **SEQUENCES, "model": {"hidden": [8], "lstm": 6}},
    "rainbow": {"env": Watched, "algorithm": "rainbow", **OFF_POLICY},
    "deterministic": {"env": Scaled, "algorithm": "td3", **OFF_POLICY},
    "soft": {"env": Scaled, "algorithm": "sac", **OFF_POLICY},
    "soft discrete": {"env": Masked, "algorithm": "sac", **OFF_POLICY},
}

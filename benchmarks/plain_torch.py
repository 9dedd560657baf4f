"""PPO as one plain loop of torch over Gymnasium's SyncVectorEnv: what somebody would write who needs nothing else."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import torch
from recipe import HIDDEN, RECIPE, Stopwatch, Tap, Tapped, Training
from torch import Tensor, nn

N, T = RECIPE.num_envs, RECIPE.horizon


def network(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Two tanh layers, orthogonal weights, no bias at the start."""
    layers: list[nn.Module] = []
    for size in HIDDEN:
        layers += [linear(inputs, size, 2**0.5), nn.Tanh()]
        inputs = size
    return nn.Sequential(*layers, linear(inputs, outputs, gain))


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Rollout:
    """Storage for one round: ``[T, N]`` of everything."""

    def __init__(self, observation_size: int) -> None:
        self.obs = torch.zeros(T, N, observation_size)
        self.actions = torch.zeros(T, N, dtype=torch.int64)
        self.logp, self.rewards, self.values, self.ended = (torch.zeros(T, N) for _ in range(4))

    def advantages(self, last_value: Tensor) -> Tensor:
        """GAE; a time limit counts as an end here, as it does in most single-file scripts."""
        found = torch.zeros(T, N)
        following, value_after = torch.zeros(N), last_value
        for t in reversed(range(T)):
            going_on = 1.0 - self.ended[t]
            error = self.rewards[t] + RECIPE.gamma * value_after * going_on - self.values[t]
            following = error + RECIPE.gamma * RECIPE.lambda_ * going_on * following
            found[t], value_after = following, self.values[t]
        return found


@torch.no_grad()
def sample(
    envs: gymnasium.vector.SyncVectorEnv, policy: nn.Module, value: nn.Module, store: Rollout, obs: Tensor
) -> Tensor:
    """Fills ``store`` and returns the observation to go on from."""
    for t in range(T):
        logp = torch.log_softmax(policy(obs), -1)
        action = torch.multinomial(logp.exp(), 1)
        store.obs[t], store.actions[t] = obs, action[:, 0]
        store.logp[t], store.values[t] = logp.gather(1, action)[:, 0], value(obs)[:, 0]
        after, reward, terminated, truncated, _ = envs.step(action[:, 0].numpy())
        store.rewards[t] = torch.as_tensor(reward, dtype=torch.float32)
        store.ended[t] = torch.as_tensor(terminated | truncated, dtype=torch.float32)
        obs = torch.as_tensor(after)
    return obs


def loss(
    policy: nn.Module, value: nn.Module, obs: Tensor, actions: Tensor, old: Tensor, adv: Tensor, target: Tensor
) -> Tensor:
    """The clipped surrogate, the squared value error and the entropy bonus of one minibatch."""
    logp = torch.log_softmax(policy(obs), -1)
    ratio = (logp.gather(1, actions[:, None])[:, 0] - old).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    surrogate = torch.min(adv * ratio, adv * ratio.clamp(1 - RECIPE.clip, 1 + RECIPE.clip)).mean()
    entropy = -(logp.exp() * logp).sum(-1).mean()
    error = (value(obs)[:, 0] - target).square().mean()
    return -surrogate - RECIPE.entropy * entropy + RECIPE.value * error


def train(env_steps: int, seed: int) -> Training:
    """Trains for at least ``env_steps``."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    tap = Tap()
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: Tapped(tap) for _ in range(N)], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    policy, value = network(4, 2, 0.01), network(4, 1, 1.0)
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=RECIPE.learning_rate, eps=1e-5)
    store = Rollout(4)
    obs = torch.as_tensor(envs.reset(seed=seed)[0])
    parts = {"sample": 0.0, "learn": 0.0}
    watch = Stopwatch()
    while tap.env_steps < env_steps:
        before = time.perf_counter()
        obs = sample(envs, policy, value, store, obs)
        with torch.no_grad():
            advantages = store.advantages(value(obs)[:, 0])
        columns = [store.obs, store.actions, store.logp, advantages, advantages + store.values]
        flat = [column.reshape(N * T, *column.shape[2:]) for column in columns]
        between = time.perf_counter()
        for _ in range(RECIPE.epochs):
            for rows in torch.randperm(N * T).split(RECIPE.minibatch):
                optimizer.zero_grad()
                loss(policy, value, *(column[rows] for column in flat)).backward()
                nn.utils.clip_grad_norm_(parameters, RECIPE.max_grad_norm)
                optimizer.step()
        parts["sample"] += between - before
        parts["learn"] += time.perf_counter() - between
    seconds, cpu_seconds = watch.read()
    return Training("plain torch loop", torch.__version__, tap.env_steps, seconds, cpu_seconds, tap.best, parts)

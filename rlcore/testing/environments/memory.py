"""Tasks that a policy without a memory cannot do, however well it learns."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

Observation = NDArray[np.float32]

#: Steps after which an episode of CartPole-v1 is truncated.
TIME_LIMIT = 500


class RememberFirst(gymnasium.Env[Observation, Any]):
    """The first observation shows one of ``cues``, the last of ``length`` asks which it was, nothing is seen between.

    Observations are float32 ``[cues + 1]``: the cue, one-hot, in the first; all zeros after it; 1 at the end of the
    last, the question. The action that answers it is worth 1 where it names the cue, else 0; all others have no
    influence. The episode terminates with the answer.

    The best return is 1. Without a memory every question looks the same, and the mean return is ``1 / cues`` whatever
    the policy.
    """

    metadata = {"render_modes": []}

    def __init__(self, cues: int = 4, length: int = 10, render_mode: str | None = None) -> None:
        if cues < 2 or length < 2:
            raise ValueError(f"RememberFirst: cues and length must be 2 or more, got {cues} and {length}")
        self.observation_space = Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = Discrete(cues)
        self.render_mode = render_mode
        self._cues, self._length = cues, length
        self._cue, self._t = 0, length

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._cue, self._t = int(self.np_random.integers(self._cues)), 0
        obs = self._nothing()
        obs[self._cue] = 1.0
        return obs, {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if not 0 <= action < self._cues:
            raise ValueError(f"RememberFirst: action {action} is not in 0 to {self._cues - 1}")
        if self._t == self._length:
            raise ValueError("RememberFirst: the episode is over, or none has begun; call reset()")
        self._t += 1
        over = self._t == self._length
        obs = self._nothing()
        if self._t == self._length - 1:
            obs[-1] = 1.0
        return obs, float(over and action == self._cue), over, False, {}

    def _nothing(self) -> Observation:
        return np.zeros(self._cues + 1, np.float32)


class HiddenVelocityCartPole(CartPoleEnv):
    """Gymnasium's CartPole-v1, 500 steps, of which only the position of the cart and the angle of the pole are seen.

    Observations are float32 ``[2]``: metres, and radians. Which way cart and pole move can only be told from two
    observations; a policy that sees one at a time falls long before the 500 that one with a memory reaches.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        whole: Any = self.observation_space
        self.observation_space = Box(whole.low[[0, 2]], whole.high[[0, 2]], dtype=np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        self._steps = 0
        return obs[[0, 2]], info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, _, info = super().step(action)  # type: ignore[no-untyped-call]
        self._steps += 1
        return obs[[0, 2]], reward, terminated, self._steps == TIME_LIMIT, info

"""Separate games of ALE preprocessed as ALE's own vector environment does it, pixel by pixel."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.errors import EnvError
from rlcore_gym.atari_seeds import draw_noops, emulator_seed, noop_words

if TYPE_CHECKING:
    from rlcore_gym.atari import AtariSettings

Pixels = NDArray[np.uint8]

#: ALE's number for no input.
_NOOP = 0


class AtariFrames(gymnasium.Wrapper[Any, Any, Any, Any]):
    """What :class:`rlcore_gym.atari.AtariSettings` say, around ``ale_py.AtariEnv`` without frames of its own skipped.

    An episode that is truncated by the emulator's limit (``max_num_frames_per_episode``) is so after that many frames
    of its own actions: those without input at its beginning do not count.

    Raises ``ValueError`` where the environment skips frames itself, ``EnvError`` where OpenCV is not installed.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], settings: AtariSettings) -> None:
        super().__init__(env)
        if settings.frame_skip > 1 and getattr(env.unwrapped, "_frameskip", None) != 1:
            raise ValueError("frames would be skipped twice: the environment has to be made with frameskip=1")
        self._opencv = _opencv()
        self.settings = settings
        self.frame_skip = settings.frame_skip
        self._size = width, height = settings.size()
        # Only AtariEnv has an emulator, and ale-py is typed as any Env.
        self._ale: Any = env.unwrapped.ale  # type: ignore[attr-defined]
        colours = () if settings.grayscale else (3,)
        #: The last screen and the one before, of which the brighter pixels are seen.
        self.screens = [np.zeros((*self._ale.getScreenDims(), *colours), np.uint8) for _ in range(2)]
        self.observation_space = gymnasium.spaces.Box(0, 255, (height, width, *colours), np.uint8)
        #: What frames without input are drawn from.
        self.words = np.random.RandomState()
        self._limit = self._own_limit()
        #: Frames of the game since its beginning, lives at the last observation, whether the last step took one.
        self.frames, self.lives, self.life_lost = 0, 0, False

    def _own_limit(self) -> int:
        """The emulator's limit, which it is then kept from reaching first."""
        limit = int(self._ale.getInt("max_num_frames_per_episode"))
        if limit <= 0:
            return np.iinfo(np.int64).max
        self._ale.setInt("max_num_frames_per_episode", limit + self.settings.noop_max)
        # The emulator reads the limit when it loads its game.
        self.env.unwrapped.load_game()  # type: ignore[attr-defined]
        return limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        if self.life_lost and seed is None:
            self.life_lost = False
            return self._seen(), {"lives": self.lives}
        _, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self.words = noop_words(emulator_seed(seed))
        for _ in range(draw_noops(self.words, self.settings.noop_max)):
            self._ale.act(_NOOP)
            if self._ale.game_over():
                self._ale.reset_game()
        self.frames, self.lives, self.life_lost = 0, self._ale.lives(), False
        self._read(0)
        self.screens[1].fill(0)
        self._pool()
        return self._seen(), info

    def step(self, action: Any) -> tuple[Pixels, float, bool, bool, dict[str, Any]]:
        reward, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {}
        for left in range(self.frame_skip, 0, -1):
            _, own, terminated, truncated, info = self.env.step(action)
            reward += float(own)
            self.frames += 1
            truncated = not terminated and (truncated or self.frames >= self._limit)
            if terminated or truncated:
                break
            if left <= 2:
                self._read(left - 1)
        self._pool()
        lives = self._ale.lives()
        self.life_lost = self.settings.life_loss_ends and not (terminated or truncated) and 0 < lives < self.lives
        self.lives = lives
        return self._seen(), reward, terminated or self.life_lost, truncated, info

    def _read(self, screen: int) -> None:
        if self.settings.grayscale:
            self._ale.getScreenGrayscale(self.screens[screen])
        else:
            self._ale.getScreenRGB(self.screens[screen])

    def _pool(self) -> None:
        # In place, so that a game that ends between two frames shows what ALE's vector environment shows.
        if self.frame_skip > 1:
            np.maximum(self.screens[0], self.screens[1], out=self.screens[0])

    def _seen(self) -> Pixels:
        """What the last screens show, a new array."""
        return np.asarray(
            self._opencv.resize(self.screens[0], self._size, interpolation=self._opencv.INTER_AREA), np.uint8
        )


def _opencv() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise EnvError("OpenCV is not installed: pip install 'rlcore-gym[atari]'") from error

"""The settings of the preprocessing of Atari games, the same for every emulator that they are played in."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium
from pydantic import BaseModel, ConfigDict, Field, field_validator

from rlcore_gym.atari_frames import AtariFrames

Env = gymnasium.Env[Any, Any]


class AtariSettings(BaseModel):
    """The DeepMind preprocessing of separate games, of ALE's vector environment, and of EnvPool.

    Machado et al. (2018), "Revisiting the Arcade Learning Environment", section 5: each action is repeated for
    ``frame_skip`` frames, of the last two of which the brighter pixels are seen, resized to ``screen_size`` (a side, or
    width and height) by the mean of the areas. Before the first observation of a game 0 to ``noop_max - 1``
    frames pass without input. With ``life_loss_ends`` an episode also terminates with each life, and the
    next one goes on with the game from there (Mnih et al. 2015, "Human-level control", Methods). Rewards are those of
    the game.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    noop_max: Annotated[int, Field(ge=0)] = 30
    frame_skip: Annotated[int, Field(ge=1)] = 4
    screen_size: Annotated[int, Field(ge=1)] | tuple[int, int] = 84
    grayscale: bool = True
    life_loss_ends: bool = False

    @field_validator("screen_size", mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.screen_size if isinstance(self.screen_size, tuple) else (self.screen_size, self.screen_size)

    def make_keywords(self) -> dict[str, Any]:
        """What ``gymnasium.make`` is told so that nothing is done twice: the screen is read where the frames are."""
        return {"frameskip": 1, "obs_type": "ram"}

    def wrap(self, env: Env) -> Env:
        """``env`` preprocessed."""
        return AtariFrames(env, self)

"""The settings of the DeepMind preprocessing of Atari games."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium
from pydantic import BaseModel, ConfigDict, Field, field_validator

Env = gymnasium.Env[Any, Any]


class AtariSettings(BaseModel):
    """The DeepMind preprocessing, in Gymnasium's AtariPreprocessing.

    Machado et al. (2018), "Revisiting the Arcade Learning Environment", section 5: each action is repeated for
    ``frame_skip`` frames, of the last two of which the brighter pixels are seen, resized to ``screen_size`` (a side, or
    width and height). An episode begins with 1 to ``noop_max`` frames without input, 0 for none. ``life_loss_ends``
    ends an episode with each life. Rewards are the game's.
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
        """What ``gymnasium.make`` is told so that nothing is done twice; the screen is then read by the wrapper."""
        return {"frameskip": 1, "obs_type": "grayscale" if self.grayscale else "rgb"}

    def wrap(self, env: Env) -> Env:
        """``env`` preprocessed."""
        return gymnasium.wrappers.AtariPreprocessing(
            env,
            noop_max=self.noop_max,
            frame_skip=self.frame_skip,
            screen_size=self.size(),
            terminal_on_life_loss=self.life_loss_ends,
            grayscale_obs=self.grayscale,
        )

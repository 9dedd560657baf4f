"""The settings that every provider of this package takes itself, beside those of the game."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlcore.validation import validate

#: Seconds that a worker has for a step of one copy where nothing else is said.
STEP_TIMEOUT = 300.0


class StageSettings(BaseModel):
    """``shuffle_seats``: agents with the same spaces take each other's places, drawn anew for each episode.

    ``workers``: so many processes share the copies; 0 is this one.

    ``step_timeout``: seconds that a worker has for a step, for each of its copies, before it counts as lost.
    ``on_failure``: whether a copy that raised, or a worker that was lost, ends the run or begins anew.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    shuffle_seats: bool = False
    workers: int = Field(0, ge=0)
    step_timeout: float = Field(STEP_TIMEOUT, gt=0, strict=False)
    on_failure: Literal["raise", "restart"] = "raise"

    @property
    def restarts(self) -> bool:
        """Whether what failed begins anew."""
        return self.on_failure == "restart"


def split_settings(
    settings: Mapping[str, Any], kind: type[StageSettings] = StageSettings
) -> tuple[StageSettings, dict[str, Any]]:
    """The settings of ``kind``, checked, and all others. ``ConfigError`` for a value that does not fit."""
    own = {key: value for key, value in settings.items() if key in kind.model_fields}
    others = {key: value for key, value in settings.items() if key not in own}
    return validate(kind, own, "env_settings"), others

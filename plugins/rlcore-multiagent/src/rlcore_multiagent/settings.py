"""The settings that every provider of this package takes itself, beside those of the game."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rlcore.validation import validate


class StageSettings(BaseModel):
    """``shuffle_seats``: agents with the same spaces take each other's places, drawn anew for each episode.

    ``workers``: so many processes share the copies; 0 is this one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    shuffle_seats: bool = False
    workers: int = Field(0, ge=0)


def split_settings(
    settings: Mapping[str, Any], kind: type[StageSettings] = StageSettings
) -> tuple[StageSettings, dict[str, Any]]:
    """The settings of ``kind``, checked, and all others. ``ConfigError`` for a value that does not fit."""
    own = {key: value for key, value in settings.items() if key in kind.model_fields}
    others = {key: value for key, value in settings.items() if key not in own}
    return validate(kind, own, "env_settings"), others

"""Graphs that cannot be built as they should, or say the wrong things about themselves."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from rlcore.errors import SpaceError
from rlcore.policy_graph import ActOutput
from rlcore.testing.constant import TableValue
from rlcore.testing.linear import BIAS, LinearPG, LinearPGConfig

_numbers = itertools.count()


class NotBuilt(LinearPG):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        raise RuntimeError("not today")


class RandomStart(LinearPG):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.set_weights({BIAS: np.full_like(self._weights[BIAS], next(_numbers))})


class LooseConfig(LinearPGConfig):
    model_config = ConfigDict(extra="ignore")


class TakesAnySetting(LinearPG):
    Config = LooseConfig


class PlainConfig(BaseModel):
    learning_rate: float = 1e-3


class NoGraphConfig(LinearPG):
    Config = PlainConfig  # type: ignore[assignment]


class UnpicklableConfig(LinearPGConfig):
    def __reduce__(self) -> Any:
        raise TypeError("stays here")


class StaysHere(LinearPG):
    Config = UnpicklableConfig


class AnyDevice(LinearPG):
    def __init__(self, *args: Any, devices: Any = ("cpu",), **keywords: Any) -> None:
        super().__init__(*args, **keywords)


class AnySpace(TableValue):
    """Builds with any spaces; fails later."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any, **keywords: Any) -> None:
        with contextlib.suppress(SpaceError):
            super().__init__(observation_space, action_space, config, **keywords)


class NamelessRefusal(LinearPG):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        try:
            super().__init__(*args, **keywords)
        except SpaceError:
            raise SpaceError("unsupported") from None


class FloatLookahead(LinearPG):
    lookahead = 1.5  # type: ignore[assignment]


class StringUnit(LinearPG):
    minibatch_unit = "row"  # type: ignore[assignment]


class ListsUtilities(LinearPG):
    def utilities(self) -> Any:
        return ["update_target"]


class TakesAnyCall(LinearPG):
    def call(self, utility: str, *args: Any) -> Any:
        return None


class GlobalDraws(LinearPG):
    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        out = super().act(*args, **keywords)
        np.random.random()
        return out

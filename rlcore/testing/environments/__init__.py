"""Small environments with known right answers, well behaved and not."""

from rlcore.testing.environments.catch import Catch
from rlcore.testing.environments.contexts import Contexts
from rlcore.testing.environments.count import AliasingCount, AliasingCountEnv, Count, CountEnv, DictCountEnv
from rlcore.testing.environments.drawn import Drawn
from rlcore.testing.environments.faulty import (
    ArrayRewardEnv,
    ExtraKeyEnv,
    InfoEnv,
    MissingKeyEnv,
    NaNCount,
    NaNEnv,
    NaNRewardEnv,
    PoppingEnv,
    RaisingCount,
    RaisingEnv,
    RaisingResetEnv,
    ReversedKeysEnv,
    ShiftedActionsEnv,
    WrongShapeCount,
    WrongShapeEnv,
)
from rlcore.testing.environments.goals import BitFlip
from rlcore.testing.environments.memory import HiddenVelocityCartPole, RememberFirst
from rlcore.testing.environments.scattered import Scattered, ScatteredCount
from rlcore.testing.environments.two_agent import TwoAgentEnv

__all__ = [
    "AliasingCount",
    "AliasingCountEnv",
    "ArrayRewardEnv",
    "BitFlip",
    "Catch",
    "Contexts",
    "Count",
    "CountEnv",
    "DictCountEnv",
    "Drawn",
    "ExtraKeyEnv",
    "HiddenVelocityCartPole",
    "InfoEnv",
    "MissingKeyEnv",
    "NaNCount",
    "NaNEnv",
    "NaNRewardEnv",
    "PoppingEnv",
    "RaisingCount",
    "RaisingEnv",
    "RaisingResetEnv",
    "RememberFirst",
    "ReversedKeysEnv",
    "Scattered",
    "ScatteredCount",
    "ShiftedActionsEnv",
    "TwoAgentEnv",
    "WrongShapeCount",
    "WrongShapeEnv",
]

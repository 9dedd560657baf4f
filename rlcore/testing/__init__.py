"""What tests of rlcore and of its plugins are made of. Ships with the kernel; imports no framework and no pytest."""

from rlcore.testing.checks import check_act_rows, check_batch, check_observations
from rlcore.testing.constant import TableActor, TableValue
from rlcore.testing.environments import (
    AliasingCount,
    AliasingCountEnv,
    Count,
    CountEnv,
    DictCountEnv,
    Scattered,
    ScatteredCount,
    TwoAgentEnv,
)
from rlcore.testing.linear import LinearActor, LinearPG

__all__ = [
    "AliasingCount",
    "AliasingCountEnv",
    "Count",
    "CountEnv",
    "DictCountEnv",
    "LinearActor",
    "LinearPG",
    "Scattered",
    "ScatteredCount",
    "TableActor",
    "TableValue",
    "TwoAgentEnv",
    "check_act_rows",
    "check_batch",
    "check_observations",
]

"""What tests of rlcore and of its plugins are made of. Ships with the kernel; imports no framework and no pytest.

``check_env``, ``check_policy_graph``, ``check_actor``, ``check_optimizer``, ``check_runtime`` and ``check_plugin`` hold
a part to the contract of its kind and list everything that is wrong, each with the fix. :mod:`rlcore.testing.suites`
has the same rules as pytest classes, ``rlcore check`` applies them from the command line. Small environments with known
right answers are in :mod:`rlcore.testing.environments`.

The checks are imported when they are first used, so that the fakes cost what they cost alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily
from rlcore.testing.checks import check_act_rows, check_batch, check_observations
from rlcore.testing.constant import TableActor, TableValue
from rlcore.testing.environments import (
    AliasingCount,
    AliasingCountEnv,
    BitFlip,
    Catch,
    Contexts,
    Count,
    CountEnv,
    DictCountEnv,
    Drawn,
    HiddenVelocityCartPole,
    RememberFirst,
    Scattered,
    ScatteredCount,
    TwoAgentEnv,
)
from rlcore.testing.linear import LinearActor, LinearPG
from rlcore.testing.linear_q import LinearQ, LinearQActor

if TYPE_CHECKING:
    from rlcore.testing.kit.env import check_env as check_env
    from rlcore.testing.kit.optimizer import check_optimizer as check_optimizer
    from rlcore.testing.kit.plugin import check_plugin as check_plugin
    from rlcore.testing.kit.policy import check_actor as check_actor
    from rlcore.testing.kit.policy import check_policy_graph as check_policy_graph
    from rlcore.testing.kit.report import ConformanceError as ConformanceError
    from rlcore.testing.kit.report import Problem as Problem
    from rlcore.testing.kit.report import Report as Report
    from rlcore.testing.kit.runtime import check_runtime as check_runtime

_HOMES = {
    "ConformanceError": "kit.report",
    "Problem": "kit.report",
    "Report": "kit.report",
    "check_actor": "kit.policy",
    "check_env": "kit.env",
    "check_optimizer": "kit.optimizer",
    "check_plugin": "kit.plugin",
    "check_policy_graph": "kit.policy",
    "check_runtime": "kit.runtime",
}

__all__ = [
    "AliasingCount",
    "AliasingCountEnv",
    "BitFlip",
    "Catch",
    "ConformanceError",
    "Contexts",
    "Count",
    "CountEnv",
    "DictCountEnv",
    "Drawn",
    "HiddenVelocityCartPole",
    "LinearActor",
    "LinearPG",
    "LinearQ",
    "LinearQActor",
    "Problem",
    "RememberFirst",
    "Report",
    "Scattered",
    "ScatteredCount",
    "TableActor",
    "TableValue",
    "TwoAgentEnv",
    "check_act_rows",
    "check_actor",
    "check_batch",
    "check_env",
    "check_observations",
    "check_optimizer",
    "check_plugin",
    "check_policy_graph",
    "check_runtime",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

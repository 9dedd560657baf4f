"""Policy graphs in PyTorch for rlcore. Importing the package does not import torch; taking a class from it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

if TYPE_CHECKING:
    from rlcore_torch.a3c import A3C
    from rlcore_torch.alphazero import AlphaZero
    from rlcore_torch.appo import APPO
    from rlcore_torch.central import PPOCentral
    from rlcore_torch.cql import CQL
    from rlcore_torch.deterministic import DDPG, TD3
    from rlcore_torch.dqn import DQN
    from rlcore_torch.dynamics import Dynamics
    from rlcore_torch.imitation import BC, MARWIL
    from rlcore_torch.impala import IMPALA
    from rlcore_torch.pg import PolicyGradient
    from rlcore_torch.ppo import PPO
    from rlcore_torch.sac import SAC

__all__ = [
    "A3C",
    "APPO",
    "BC",
    "CQL",
    "DDPG",
    "DQN",
    "IMPALA",
    "MARWIL",
    "PPO",
    "PPOCentral",
    "SAC",
    "TD3",
    "AlphaZero",
    "Dynamics",
    "PolicyGradient",
]

_MODULES = {
    "A3C": "a3c",
    "APPO": "appo",
    "AlphaZero": "alphazero",
    "BC": "imitation",
    "CQL": "cql",
    "DDPG": "deterministic",
    "DQN": "dqn",
    "Dynamics": "dynamics",
    "IMPALA": "impala",
    "MARWIL": "imitation",
    "PPO": "ppo",
    "PPOCentral": "central",
    "PolicyGradient": "pg",
    "SAC": "sac",
    "TD3": "deterministic",
}

__getattr__, __dir__ = lazily(__name__, _MODULES)

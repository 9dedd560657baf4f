"""Policy graphs in TensorFlow for rlcore. Importing the package does not import TensorFlow; taking a class does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

if TYPE_CHECKING:
    from rlcore_tf.a3c import A3C
    from rlcore_tf.alphazero import AlphaZero
    from rlcore_tf.appo import APPO
    from rlcore_tf.central import PPOCentral
    from rlcore_tf.cql import CQL
    from rlcore_tf.deterministic import DDPG, TD3
    from rlcore_tf.dqn import DQN
    from rlcore_tf.dynamics import Dynamics
    from rlcore_tf.imitation import BC, MARWIL
    from rlcore_tf.impala import IMPALA
    from rlcore_tf.pg import PolicyGradient
    from rlcore_tf.ppo import PPO
    from rlcore_tf.sac import SAC

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

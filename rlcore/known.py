"""Which names the packages of this repository provide, so that an error can say what to install.

Only packages of this repository stand here, and a test compares the table with their metadata. The order is also the
order in which frameworks are preferred where a config asks for none; no other file of the kernel names one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: ``{distribution: {kind: names}}``
KNOWN: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "rlcore-torch": {
            "policy_graph": (
                "torch.pg",
                "torch.a3c",
                "torch.ppo",
                "torch.ppo_central",
                "torch.impala",
                "torch.appo",
                "torch.dqn",
                "torch.ddpg",
                "torch.td3",
                "torch.sac",
                "torch.bc",
                "torch.marwil",
                "torch.cql",
                "torch.alphazero",
                "torch.dynamics",
            )
        },
        "rlcore-tf": {
            "policy_graph": (
                "tf.pg",
                "tf.a3c",
                "tf.ppo",
                "tf.ppo_central",
                "tf.impala",
                "tf.appo",
                "tf.dqn",
                "tf.ddpg",
                "tf.td3",
                "tf.sac",
                "tf.bc",
                "tf.marwil",
                "tf.cql",
                "tf.alphazero",
                "tf.dynamics",
            )
        },
        "rlcore-gym": {"env": ("gym",)},
        "rlcore-batched": {"env": ("batched", "envpool", "external")},
        "rlcore-sync": {"optimizer": ("allreduce", "multi_gpu"), "algorithm": ("pg", "a2c", "ppo")},
        "rlcore-replay": {"optimizer": ("replay",), "algorithm": ("dqn", "rainbow", "ddpg", "td3", "sac")},
        "rlcore-apex": {"optimizer": ("apex",), "algorithm": ("apex_dqn", "apex_ddpg")},
        "rlcore-async": {
            "optimizer": ("async_gradients", "sharded_ps", "async_samples"),
            "algorithm": ("a3c", "a3c_ps", "impala", "appo"),
        },
        "rlcore-alphazero": {"optimizer": ("alphazero",), "algorithm": ("alphazero",), "command": ("ladder",)},
        "rlcore-es": {"optimizer": ("es", "nested_es"), "algorithm": ("es", "ppo_es", "a3c_es")},
        "rlcore-model": {"optimizer": ("mbpo",), "algorithm": ("mpc", "mbpo")},
        "rlcore-multiagent": {
            "env": ("pettingzoo", "openspiel"),
            "optimizer": ("self_play",),
            "algorithm": ("ppo_central",),
        },
        "rlcore-offline": {
            "optimizer": ("offline",),
            "algorithm": ("bc", "marwil", "cql"),
            "command": ("record", "estimate"),
        },
        "rlcore-tune": {"command": ("tune",)},
        "rlcore-export": {"command": ("export",)},
        "rlcore": {"policy_graph": ("numpy.pg",), "runtime": ("inline", "ray", "sim")},
    }
)


def names_of(kind: str) -> dict[str, str]:
    """``{name: distribution}`` of one kind, in the order of the table."""
    return {name: distribution for distribution, parts in KNOWN.items() for name in parts.get(kind, ())}


def framework_of(graph: str) -> str:
    """The framework in the name of a policy graph (what stands before the first dot), ``""`` where there is none."""
    framework, dot, _ = graph.partition(".")
    return framework if dot else ""


def frameworks() -> list[str]:
    """The frameworks of our own policy graphs, the preferred one first."""
    return list(dict.fromkeys(framework_of(name) for name in names_of("policy_graph")))

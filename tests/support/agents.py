"""Functions from an agent's id to the policy that acts for it."""

from __future__ import annotations


def kind(agent: str) -> str:
    """The name without the number: ``adversary`` for ``adversary_2``."""
    return agent.rpartition("_")[0]

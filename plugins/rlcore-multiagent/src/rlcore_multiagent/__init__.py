"""Environments with several agents for rlcore, and what learning in them takes; not a policy graph of any framework."""

from __future__ import annotations

from rlcore_multiagent.openspiel_provider import OpenSpielProvider
from rlcore_multiagent.pettingzoo_provider import PettingZooProvider
from rlcore_multiagent.stage import Ending, Stage, Turn
from rlcore_multiagent.staged import StagedEnv

__all__ = ["Ending", "OpenSpielProvider", "PettingZooProvider", "Stage", "StagedEnv", "Turn"]

"""Environments with several agents for rlcore, and what learning in them takes; not a policy graph of any framework."""

from __future__ import annotations

from rlcore_multiagent.openspiel_provider import OpenSpielProvider
from rlcore_multiagent.pettingzoo_provider import PettingZooProvider
from rlcore_multiagent.pool import Pool, Record
from rlcore_multiagent.stage import Ending, Stage, Turn
from rlcore_multiagent.staged import StagedEnv
from rlcore_multiagent.tournament import Outcomes, WinRates, play_games, win_rates

__all__ = [
    "Ending",
    "OpenSpielProvider",
    "Outcomes",
    "PettingZooProvider",
    "Pool",
    "Record",
    "Stage",
    "StagedEnv",
    "Turn",
    "WinRates",
    "play_games",
    "win_rates",
]

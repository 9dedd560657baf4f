"""What happens in a run, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlcore.hooks import hookimpl


class Log:
    """Notes the events of a run."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def run_start(self, out: Path | None) -> None:
        self.events.append(("run_start", out))

    def iteration(self, row: Any) -> None:
        self.events.append(("iteration", row["iteration"]))

    def evaluation(self, result: Any) -> None:
        self.events.append(("evaluation", result["env_steps"], result["episodes"]))

    def checkpoint(self, path: Path, iteration: int, best: bool) -> None:
        self.events.append(("checkpoint", path.name, iteration, best))

    def run_end(self, status: str, result: Any) -> None:
        self.events.append(("run_end", status, result["iteration"]))

    @hookimpl
    def episode_end(self, worker: int, episode: Any) -> None:
        self.events.append(("episode_end", worker))

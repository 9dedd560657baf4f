"""SearchConfig: everything that a search is told, as in a YAML file. Not the config of a run: it makes many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from rlcore.config import Count, Positive, Section, check_layer
from rlcore.config_text import nested, parse_yaml, read_config
from rlcore.errors import ConfigError
from rlcore.lookup_errors import did_you_mean
from rlcore.progress import ROW_KEYS
from rlcore.runtime_choice import with_runtime_spelt_out
from rlcore.validation import plain_numbers, shown, validate
from rlcore_tune.schedulers import ASHA, PBT, HyperBand, NoScheduler, Scheduler, parse_scheduler
from rlcore_tune.spaces import Distribution, Grid, parse_distribution

#: Keys of a run's config that a search has of its own.
OWN = ("algorithm", "env", "seed")


class SearchResources(Section):
    """What the trials may use of the machine, or of a cluster."""

    #: CPUs of one trial, for its trainer and its evaluators together; as many trials run at once as there is room for.
    trial_cpus: float = Field(default=1.0, gt=0)
    #: CPUs that a Ray started for the search gives away; those of the machine where left out.
    cpus: Positive | None = None
    #: The head node of a Ray cluster to run on, or ``auto``; else a Ray is started for the search.
    address: str | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.address is not None and self.cpus is not None:
            raise ValueError("'cpus' is for a Ray that is started here, and 'address' names one that runs already")
        return self


class SearchConfig(Section):
    """The settings of one search.

    ``space`` maps dotted keys of a run's config to what their values are drawn from, ``config`` holds what all trials
    have in common. ``trials`` says how often the space is drawn; each draw is tried with every point of its grid.
    ``metric`` is a key of progress rows; a row without a value leaves the last one standing.
    """

    algorithm: str
    env: str
    config: dict[str, Any] = Field(default_factory=dict)
    space: dict[str, Distribution]
    scheduler: Annotated[NoScheduler | ASHA | HyperBand | PBT, BeforeValidator(parse_scheduler)] = NoScheduler()
    trials: Positive = 1
    metric: str = "episode_return_mean"
    mode: Literal["max", "min"] = "max"
    resources: SearchResources = SearchResources()
    #: How often the process of a trial may die; the trial goes on from its last checkpoint each time.
    max_losses: Count = 3
    seed: Count = 0

    @field_validator("space", mode="before")
    @classmethod
    def _distributions(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not value:
            raise ConfigError(f"space: should map dotted keys to what they are drawn from, not {shown(value)}")
        for key in value:
            if not isinstance(key, str) or key.split(".")[0] in (*OWN, "stop"):
                raise ConfigError(f"space.{key}: no setting that a search can draw")
        return {key: parse_distribution(one, f"space.{key}") for key, one in value.items()}

    @field_validator("metric")
    @classmethod
    def _row_key(cls, value: str) -> str:
        # Statistics of policies show only in the rows; what is close to a key that all rows have was meant to be it.
        if value not in ROW_KEYS and (meant := did_you_mean(value, ROW_KEYS, before=", ")):
            raise ValueError(f"unknown row key{meant}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if isinstance(self.scheduler, PBT) and len(self.points()) * self.trials < 2:
            raise ConfigError("trials: with pbt trials take over from others, which takes two at least")
        if self.scheduler.last_env_steps is None and not self.config.get("stop"):
            raise ConfigError("config.stop: missing; a search needs an end, such as {env_steps: 100000}")
        return self

    def points(self) -> list[dict[str, Any]]:
        """The points of the grid: every combination of the values of its keys; one empty point without a grid."""
        points: list[dict[str, Any]] = [{}]
        for key, one in self.space.items():
            if isinstance(one, Grid):
                points = [{**point, key: value} for point in points for value in one.grid]
        return points

    def to_tree(self) -> dict[str, Any]:
        """The config as YAML holds it."""
        tree = self.model_dump(mode="json", exclude={"space"})
        tree["space"] = {key: one.model_dump(mode="json") for key, one in self.space.items()}
        return tree


def parse_search(settings: Mapping[str, Any]) -> SearchConfig:
    """``settings`` checked. ``ConfigError``, a line for each wrong key."""
    checked = validate(SearchConfig, plain_numbers(settings))
    for key in OWN:
        if key in checked.config:
            raise ConfigError(f"config.{key}: stands at '{key}'")
    try:
        check_layer(with_runtime_spelt_out(checked.config))
    except ConfigError as error:
        raise ConfigError("\n".join(f"config.{line}" for line in str(error).splitlines())) from None
    nested(dict.fromkeys(checked.space))
    return checked


def read_search(path: Path | str) -> SearchConfig:
    """The search in a YAML file."""
    return parse_search(read_config(path))


def search_from_text(text: str, name: str) -> SearchConfig:
    """The search in a YAML text, which messages call ``name``."""
    return parse_search(parse_yaml(text, name))


__all__ = ["Scheduler", "SearchConfig", "SearchResources", "parse_search", "read_search", "search_from_text"]

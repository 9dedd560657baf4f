"""Who may go on: the settings of the schedulers. All of them count environment steps of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rlcore.config import Count, Positive, Section
from rlcore.errors import ConfigError
from rlcore.validation import meant_or_known, shown, validate_plain

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class SchedulerSettings(Section):
    """Base of the settings of all schedulers."""

    name: str

    @property
    def report_env_steps(self) -> int:
        """Environment steps after which a trial reports, is saved, and is decided on."""
        raise NotImplementedError

    @property
    def last_env_steps(self) -> int | None:
        """Environment steps that no trial goes beyond; None where only its own stop keys end it."""
        return None


class NoScheduler(SchedulerSettings):
    """Every trial is trained to its end; it reports and is saved every so many environment steps."""

    name: Literal["none"] = "none"
    every_env_steps: Positive = 10_000

    @property
    def report_env_steps(self) -> int:
        return self.every_env_steps


class _Halving(SchedulerSettings):
    """Some go on to ``reduction_factor`` times the steps, beginning with ``min_env_steps``."""

    min_env_steps: Positive
    max_env_steps: Positive
    reduction_factor: float = Field(default=3.0, gt=1.0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_env_steps < self.min_env_steps * self.reduction_factor:
            raise ValueError("max_env_steps should be at least reduction_factor times min_env_steps")
        return self

    @property
    def report_env_steps(self) -> int:
        return self.min_env_steps

    @property
    def last_env_steps(self) -> int:
        return self.max_env_steps


class ASHA(_Halving):
    """Asynchronous successive halving (Li et al. 2020): at ``min_env_steps`` times each power of ``reduction_factor`` a
    trial goes on if it is in the best ``1 / reduction_factor`` of those that have been there."""

    name: Literal["asha"] = "asha"


class HyperBand(_Halving):
    """HyperBand (Li et al. 2018): brackets of trials that begin with more trials for fewer steps, or fewer for more; in
    each, trials wait for the others, and the best ``1 / reduction_factor`` of them go on."""

    name: Literal["hyperband"] = "hyperband"


class PBT(SchedulerSettings):
    """Population based training (Jaderberg et al. 2017): every ``every_env_steps`` the worst ``quantile`` of the trials
    take over all that one of the best has come to, weights and optimizer states included, with settings near its own.

    Each setting is drawn anew with ``resample_probability`` and else multiplied by one of ``factors``, within the
    bounds of the search space. Before ``burn_in_env_steps`` nobody is copied.
    """

    name: Literal["pbt"] = "pbt"
    every_env_steps: Positive
    quantile: Annotated[float, Field(gt=0.0, le=0.5)] = 0.25
    resample_probability: Share = 0.25
    factors: tuple[Annotated[float, Field(gt=0.0, lt=1.0)], Annotated[float, Field(gt=1.0)]] = (0.8, 1.25)
    burn_in_env_steps: Count = 0

    @property
    def report_env_steps(self) -> int:
        return self.every_env_steps


Scheduler = NoScheduler | ASHA | HyperBand | PBT

SCHEDULERS: Mapping[str, type[NoScheduler] | type[ASHA] | type[HyperBand] | type[PBT]] = {
    "none": NoScheduler,
    "asha": ASHA,
    "hyperband": HyperBand,
    "pbt": PBT,
}


def parse_scheduler(settings: Any) -> Scheduler:
    """What ``{name: pbt, ...}`` stands for, or a name alone. ``ConfigError``, a line for each wrong key."""
    if isinstance(settings, NoScheduler | ASHA | HyperBand | PBT):
        return settings
    given = {"name": settings} if isinstance(settings, str) else settings
    if not isinstance(given, Mapping):
        raise ConfigError(f"scheduler: should be keys and values, not {shown(settings)}")
    name = given.get("name")
    if name is None:
        raise ConfigError(f"scheduler.name: missing; there are: {', '.join(SCHEDULERS)}")
    if name not in SCHEDULERS:
        raise ConfigError(f"scheduler.name: unknown scheduler {name!r}{meant_or_known(str(name), SCHEDULERS)}")
    return validate_plain(SCHEDULERS[name], given, "scheduler")

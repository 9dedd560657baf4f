"""RunConfig: everything that a run is told, as in a YAML file. Not the recipe of an algorithm, which lends it defaults.

Every key is checked; ``env_settings``, ``policy``, ``model`` and the keys beside ``optimizer.name`` are free-form here:
the first belongs to the environment, the others are checked against the parts that they name when a config is
resolved (:mod:`rlcore.resolve`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from rlcore.errors import ConfigError
from rlcore.validation import check_parts, plain_numbers, shown, validate

#: How a Python object that no import path leads to is written down; what stands for it must be given anew.
OBJECT_MARK = "<python object "


def _integral(value: Any) -> Any:
    """``1e5`` is a float in YAML; a count may be written so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer = Annotated[int, BeforeValidator(_integral)]
Positive = Annotated[int, BeforeValidator(_integral), Field(ge=1)]
Count = Annotated[int, BeforeValidator(_integral), Field(ge=0)]


class Section(BaseModel):
    """Base of every part of a config: unknown keys and wrong types are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OptimizerSettings(Section):
    """The name of an optimizer and, beside it, the settings that its ``Config`` knows."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.model_extra or {})


class EvaluatorSettings(Section):
    """The evaluators: how many (0: the driver samples itself), environments in each, and what one sample is."""

    count: Count = 0
    envs: Positive = 1
    #: Steps of each environment in one sample; 200 where neither this nor ``episodes`` is given.
    fragment: Positive | None = None
    #: Complete episodes in one sample, in place of a fragment.
    episodes: Positive | None = None
    #: What each of them has to itself where it is a process of its own; fractions share one. With GPUs graphs compute
    #: there. ``custom`` is by name.
    cpus: float = Field(default=1.0, ge=0)
    gpus: float = Field(default=0.0, ge=0)
    custom: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    #: Seconds after which one that has not answered is replaced; those that start have 300 at the least.
    timeout_s: float = Field(default=300.0, gt=0)
    #: Seconds that are waited for one that has no room to start, before rounds go on without it.
    room_timeout_s: float = Field(default=30.0, ge=0)
    #: A round is over as soon as this share of the evaluators has given a sample; the others' are used when they come.
    sample_fraction: float = Field(default=1.0, gt=0, le=1)
    #: Or after so many seconds with the samples that there are then, at least one; null: no such limit.
    sample_timeout_s: float | None = Field(default=None, gt=0)
    #: So many rounds in a row may be over without an evaluator's sample; then it is waited for.
    max_late_rounds: Positive = 8

    @field_validator("custom")
    @classmethod
    def _own_names(cls, value: dict[str, float]) -> dict[str, float]:
        known = {"CPU": "evaluators.cpus", "GPU": "evaluators.gpus"}
        for name in value:
            if name in known:
                raise ValueError(f"'{name}' is not for here: use {known[name]}")
            if name in ("memory", "object_store_memory"):
                raise ValueError(f"'{name}' is a resource of Ray's own, which evaluators do not ask for")
        return value

    @model_validator(mode="after")
    def _one_of_two(self) -> EvaluatorSettings:
        if self.fragment is not None and self.episodes is not None:
            raise ValueError("give 'fragment' (steps) or 'episodes' (complete ones), not both")
        return self


class PolicySettings(Section):
    """One of several policies. What is left out is as the config says at its top level."""

    graph: str | None = None
    policy: dict[str, Any] = Field(default_factory=dict)
    model: dict[str, Any] = Field(default_factory=dict)
    optimizer: OptimizerSettings | None = None
    trained: bool = True


class ResolvedOptimizer(OptimizerSettings):
    """An optimizer's name and the settings of its ``Config``, complete."""

    name: str


class ResolvedPolicy(PolicySettings):
    """The complete settings of one policy."""

    graph: str
    optimizer: ResolvedOptimizer


class EvaluationSettings(Section):
    """Evaluation during training: after how many environment steps (null: never), and over how many episodes.

    The first evaluation and from there on each ``video_every``-th (null: none) is filmed into the run folder, with the
    first ``video_episodes`` of its episodes.
    """

    every_env_steps: Positive | None = None
    episodes: Positive = 20
    video_every: Positive | None = None
    video_episodes: Positive = 1


class CheckpointSettings(Section):
    """Checkpoints in the run folder: every so many iterations, how many are kept, the best one.

    ``replay`` says whether they hold the replay memory, which may be large. A run that goes on without it fills it
    anew.
    """

    every: Positive = 10
    keep: Positive = 3
    best: bool = True
    replay: bool = True


class ResourceSettings(Section):
    """What the run may use of the machine."""

    learner_gpus: Count = 0


class RuntimeSettings(Section):
    """The name of a runtime and, beside it, the settings that its ``Config`` knows; a name alone may stand for both."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelt_out(cls, value: Any) -> Any:
        return spelt_out(value)

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> Any:
        return serialize(self) if self.settings else self.name

    @property
    def settings(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.model_extra or {})


def spelt_out(runtime: Any) -> Any:
    """``{"name": "ray"}`` for ``"ray"``, so that settings beside the name can be merged."""
    return {"name": runtime} if isinstance(runtime, str) or runtime is None else runtime


class RunConfig(Section):
    """The settings of one run; ``rlcore.resolve.resolve`` fills in what the recipe and the defaults lend."""

    algorithm: str
    framework: str | None = None
    #: The name of an environment, or (in Python) a class or callable that is called with ``env_settings``.
    env: Any
    env_settings: dict[str, Any] = Field(default_factory=dict)
    policy: dict[str, Any] = Field(default_factory=dict)
    model: dict[str, Any] = Field(default_factory=dict)
    filter: Literal["none", "mean_std"] = "none"
    reward_filter: Literal["none", "clip", "return_std"] = "none"
    optimizer: OptimizerSettings = OptimizerSettings()
    evaluators: EvaluatorSettings = EvaluatorSettings()
    policies: dict[str, PolicySettings] = Field(default_factory=dict)
    #: ``{agent_id: policy_id}``, an import path ``package.module:function``, or (in Python) a function of an agent id.
    policy_of: Any = None
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    resources: ResourceSettings = ResourceSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    seed: Count = 0
    #: ``{row key: value}``: the run stops when one of them is reached. Null removes a key that was set before.
    stop: dict[str, float] = Field(default_factory=dict)

    @field_validator("env")
    @classmethod
    def _env(cls, value: Any) -> Any:
        if not (isinstance(value, str) and value) and not callable(value):
            raise ValueError(f"should be the name of an environment, a class or a callable, not {shown(value)}")
        return value

    @field_validator("policy_of")
    @classmethod
    def _policy_of(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            wrong = [shown(name) for name in value.values() if not isinstance(name, str)]
            if wrong:
                raise ValueError(f"should map agents to names of policies, not to {', '.join(wrong)}")
            return dict(value)
        if value is not None and not isinstance(value, str) and not callable(value):
            raise ValueError(f"should be {{agent: policy}} or package.module:function, not {shown(value)}")
        return value

    @field_validator("stop", mode="before")
    @classmethod
    def _stop(cls, value: Any) -> Any:
        return {key: one for key, one in value.items() if one is not None} if isinstance(value, Mapping) else value

    @field_serializer("env", "policy_of", when_used="json")
    def _name(self, value: Any) -> Any:
        return object_name(value) if callable(value) else value

    def to_tree(self) -> dict[str, Any]:
        """The config as YAML and JSON hold it; Python objects become import paths or marks, see ``object_name``."""
        return self.model_dump(mode="json", fallback=object_name)


def parse_config(settings: Mapping[str, Any]) -> RunConfig:
    """``settings`` checked. ``ConfigError``, a line for each wrong key."""
    check_settings(settings)
    return validate(RunConfig, plain_numbers(settings))


def check_layer(settings: Mapping[str, Any]) -> None:
    """``ConfigError`` for what is wrong with a part of a config, in which keys may be missing."""
    check_parts(RunConfig, plain_numbers(settings))


def check_settings(settings: Any) -> None:
    """``ConfigError`` for what is no mapping at all."""
    if isinstance(settings, Mapping):
        return
    hint = "; rlcore.config_text.read_config reads a YAML file" if isinstance(settings, str) else ""
    raise ConfigError(
        "a config is a mapping with keys such as {'algorithm': 'ppo', 'env': 'CartPole-v1'}, "
        f"not {shown(settings)}{hint}"
    )


def object_name(value: Any) -> str:
    """``package.module:Name`` where that path leads back to ``value``, else a mark that says what stood there."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module in sys.modules and name and module != "__main__":
        found: Any = sys.modules[module]
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            return f"{module}:{name}"
    return f"{OBJECT_MARK}{name or type(value).__qualname__}>"


def marked_objects(tree: Any, key: str = "") -> list[str]:
    """The dotted keys of a saved config whose Python objects could not be written down."""
    if isinstance(tree, Mapping):
        return [
            found for name, part in tree.items() for found in marked_objects(part, f"{key}.{name}" if key else name)
        ]
    if isinstance(tree, list):
        return [found for i, part in enumerate(tree) for found in marked_objects(part, f"{key}.{i}")]
    return [key] if isinstance(tree, str) and tree.startswith(OBJECT_MARK) else []

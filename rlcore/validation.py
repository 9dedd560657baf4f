"""Checks settings against pydantic models and says what is wrong in one line for each key. It holds no settings."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

import gymnasium
import numpy as np
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rlcore.errors import ConfigError
from rlcore.lookup_errors import did_you_mean

Model = TypeVar("Model", bound=BaseModel)

#: Longer values are cut in messages.
_SHOWN = 60


def is_tree(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether ``value`` holds settings by key. A Dict space is a mapping as well, but a value like any other."""
    return isinstance(value, Mapping) and not isinstance(value, gymnasium.Space)


def validate(model: type[Model], settings: Mapping[str, Any], prefix: str = "") -> Model:
    """``settings`` as an instance of ``model``; values are taken as the Python objects that they are.

    Raises ``ConfigError`` with a line for each wrong key, named with dots and preceded by ``prefix``.
    """
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        raise ConfigError("\n".join(explain(error, model, settings, prefix))) from None


def check_parts(model: type[BaseModel], settings: Mapping[str, Any]) -> None:
    """``ConfigError`` as from :func:`validate`, but nothing has to be there."""
    try:
        model.model_validate(dict(settings))
    except ValidationError as error:
        lines = explain(error, model, settings, missing=False)
        if lines:
            raise ConfigError("\n".join(lines)) from None


def plain_numbers(settings: Any) -> Any:
    """``settings`` with numpy's numbers as Python's own; what is neither mapping, list nor number stays as it is."""
    if is_tree(settings):
        return {key: plain_numbers(value) for key, value in settings.items()}
    if isinstance(settings, list):
        return [plain_numbers(value) for value in settings]
    return settings.item() if isinstance(settings, np.number | np.bool_) else settings


def validate_plain(
    model: type[Model],
    settings: Mapping[str, Any],
    prefix: str = "",
    beside: Iterable[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> Model:
    """The same for settings that YAML or JSON can hold, strictly: a list may become a tuple, a text never a number.

    ``beside`` are keys that stand beside the model's own and may have been meant by an unknown one. ``elsewhere`` says
    of keys whose settings were not given below ``prefix`` where they stand.
    """
    try:
        text = json.dumps(dict(settings), default=_plain)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{prefix or 'settings'}: {error}") from error
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(error, model, settings, prefix, beside, elsewhere))) from None


def _plain(value: Any) -> Any:
    """A numpy number or array as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{shown(value)} is neither a number, a text, a list nor a mapping")


def explain(
    error: ValidationError,
    model: type[BaseModel],
    settings: Mapping[str, Any],
    prefix: str = "",
    beside: Iterable[str] = (),
    elsewhere: Mapping[str, str] | None = None,
    missing: bool = True,
) -> list[str]:
    """One line for each wrong key of ``settings``: ``optimizer.lerning_rate: unknown key, did you mean ...``.

    ``missing`` says whether keys that are not there count.
    """
    reasons: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False):
        if detail["type"] == "missing" and not missing:
            continue
        location = detail["loc"] if detail["type"] in ("extra_forbidden", "missing") else _real(detail["loc"], settings)
        key = _dotted(location, prefix, elsewhere or {})
        reason = _reason(detail, model, location, beside)
        if reason not in reasons.setdefault(key or "settings", []):
            reasons[key or "settings"].append(reason)
    return [f"{key}: {' or '.join(parts)}" for key, parts in reasons.items()]


def _dotted(location: tuple[int | str, ...], prefix: str, elsewhere: Mapping[str, str]) -> str:
    parts = [str(part) for part in location]
    if parts and parts[0] in elsewhere:
        return ".".join([elsewhere[parts[0]], *parts[1:]])
    return ".".join([prefix, *parts] if prefix else parts)


def _reason(detail: ErrorDetails, model: type[BaseModel], location: Sequence[int | str], beside: Iterable[str]) -> str:
    if detail["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1]) + (list(beside) if len(location) == 1 else [])
        return f"unknown key{meant_or_known(str(location[-1]), known)}"
    if detail["type"] == "missing":
        return "missing"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] in ("dict_type", "model_type", "model_attributes_type"):
        return f"should be keys and values, not {shown(detail['input'])}"
    message = detail["msg"].removeprefix("Input ")
    return f"{message[0].lower()}{message[1:]}, not {shown(detail['input'])}"


def meant_or_known(asked: str, known: Iterable[str]) -> str:
    """``, did you mean 'learning_rate'?`` where something is close, else the list of what there is."""
    names = sorted(known)
    meant = did_you_mean(asked, names, before=", ")
    return meant or (f"; there are: {', '.join(names)}" if names else "")


def shown(value: Any) -> str:
    """``value`` as a message shows it, shortened."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _real(location: tuple[int | str, ...], settings: Any) -> tuple[int | str, ...]:
    """The part of a pydantic location that names keys of ``settings`` and not branches of a union."""
    kept: list[int | str] = []
    for part in location:
        named = isinstance(settings, Mapping) and part in settings
        numbered = isinstance(settings, list | tuple) and isinstance(part, int) and part < len(settings)
        if not (named or numbered):
            break
        settings = settings[part]
        kept.append(part)
    return tuple(kept)


def _fields_at(annotation: Any, location: Sequence[int | str]) -> list[str]:
    """The keys that the model at ``location`` below ``annotation`` has; none where there is no one model."""
    for part in location:
        model = _model_in(annotation)
        field = model.model_fields.get(str(part)) if model is not None else None
        # The key of a mapping and the index of a list lead to the same value type.
        annotation = field.annotation if field is not None else annotation
    model = _model_in(annotation)
    return [] if model is None else list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, dict, list, tuple):
        models = [found for part in typing.get_args(annotation) if (found := _model_in(part)) is not None]
        return models[0] if len(models) == 1 else None
    return None

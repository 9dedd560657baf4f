"""What environments are wrapped in because their settings say so, and how such settings are written.

An entry of ``wrappers`` is the name of one of ``gymnasium.wrappers`` (``ClipReward``), an import path
``package.module:Name``, in Python also the class or callable itself; with keywords it is a mapping whose key
``wrapper`` says which::

    wrappers:
    - {wrapper: GrayscaleObservation, keep_dim: true}
    - my_package.wrappers:Sticky
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium

from rlcore import registry
from rlcore.envs import own_settings
from rlcore.errors import ConfigError, EnvError, UserError
from rlcore.lookup_errors import did_you_mean
from rlcore_gym.failures import FAILURES, raised
from rlcore_gym.frame_stack import FrameStack

if TYPE_CHECKING:
    from rlcore_gym.atari import AtariSettings

Env = gymnasium.Env[Any, Any]
Wrapper = Callable[..., Any]

#: The key of an entry that says which wrapper it is; the others are its keywords.
WRAPPER = "wrapper"


@dataclass(frozen=True)
class WrapperSettings:
    """One wrapper and its keywords."""

    wrapper: str | Wrapper
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return self.wrapper if isinstance(self.wrapper, str) else registry.target_of(self.wrapper)

    @property
    def imports(self) -> str | None:
        """The import path of one that is not Gymnasium's and comes as text."""
        return self.wrapper if isinstance(self.wrapper, str) and ":" in self.wrapper else None

    def find(self) -> Wrapper:
        """What wraps. ``ConfigError`` or ``UnknownPluginError`` where the name leads nowhere."""
        if not isinstance(self.wrapper, str):
            return self.wrapper
        if self.imports is not None:
            found: Wrapper = registry.import_object(self.wrapper)
            if not callable(found):
                raise ConfigError(f"env_settings.wrappers: '{self.wrapper}' is a {type(found).__name__}, no wrapper")
            return found
        known = gymnasium.wrappers.__all__
        if self.wrapper not in known or self.wrapper == "vector":
            hint = did_you_mean(self.wrapper, known)
            raise ConfigError(
                f"env_settings.wrappers: Gymnasium has no wrapper '{self.wrapper}'{hint}; "
                "one of your own is written package.module:Name"
            )
        wrapper: Wrapper = getattr(gymnasium.wrappers, self.wrapper)
        return wrapper


def wrapper_settings(entry: Any) -> WrapperSettings:
    """An entry of ``wrappers``, checked. ``ValueError`` for one that is none."""
    if isinstance(entry, WrapperSettings):
        return entry
    if isinstance(entry, str) or callable(entry):
        return WrapperSettings(entry)
    if not isinstance(entry, Mapping):
        raise ValueError(f"a wrapper is a name, or a mapping with the key '{WRAPPER}', not {entry!r}")
    wrapper = entry.get(WRAPPER)
    if not isinstance(wrapper, str) and not callable(wrapper):
        raise ValueError(f"a wrapper with keywords needs the key '{WRAPPER}', which says which one: {dict(entry)!r}")
    return WrapperSettings(wrapper, {str(key): value for key, value in entry.items() if key != WRAPPER})


@dataclass(frozen=True)
class Wrapping:
    """All that goes around one copy, the first innermost."""

    atari: AtariSettings | None = None
    wrappers: Sequence[WrapperSettings] = ()
    frame_stack: int | Mapping[str, int] | None = None

    def __call__(self, env: Env, name: str) -> Env:
        """``env`` wrapped. ``ConfigError`` for keywords that do not fit, ``EnvError`` for what else fails."""
        if self.atari is not None:
            env = _wrapped(env, name, "atari", self.atari.wrap)
        for settings in self.wrappers:
            wrap = partial(settings.find(), **own_settings(settings.keywords))
            env = _wrapped(env, name, f"wrapper {settings.name}", wrap)
        if self.frame_stack is not None:
            env = _wrapped(env, name, "frame_stack", partial(FrameStack, size=self.frame_stack))
        return env


def _wrapped(env: Env, name: str, what: str, wrap: Callable[[Env], Any]) -> Env:
    try:
        made = wrap(env)
    except UserError:
        raise
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise raised(f"environment '{name}'", what, error) from error
        raise ConfigError(f"environment '{name}': the keywords of {what} do not fit: {error}") from error
    except FAILURES as error:
        raise raised(f"environment '{name}'", what, error) from error
    if not isinstance(made, gymnasium.Env):
        raise EnvError(f"environment '{name}': {what} gave a {type(made).__qualname__}, which is no gymnasium.Env")
    return made

"""The conformance kit as pytest classes: derive one, name the part, and every rule is a test of its own.

::

    from rlcore.testing.suites import EnvTests

    class TestMyEnv(EnvTests):
        env = "my_provider:MyEnv-v0"

A rule that cannot hold is named in ``excused`` with the reason: its test is then expected to fail, and fails when it
holds after all. A test may also be overridden, with ``pytest.mark.xfail(reason=...)`` on it. One that was deleted, or
overridden without a reason, is a failure of ``test_every_rule_is_tested``.

This is the one module of the kernel that needs pytest (``pip install rlcore[testing]``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from rlcore.env import Spaces
from rlcore.envs import EnvSource
from rlcore.errors import UserError
from rlcore.lookup_errors import did_you_mean
from rlcore.policy_graph import PolicyGraph
from rlcore.testing.kit.env import ENV_RULES
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.optimizer import OPTIMIZER_RULES
from rlcore.testing.kit.optimizer.lab import OptimizerSource, optimizer_labs
from rlcore.testing.kit.plugin import PLUGIN_RULES
from rlcore.testing.kit.plugin.lab import PluginLab
from rlcore.testing.kit.policy import ACTOR_RULES, POLICY_GRAPH_RULES
from rlcore.testing.kit.policy.cases import GraphSource, graph_labs
from rlcore.testing.kit.report import Report, check_excuses
from rlcore.testing.kit.rules import Lab, Rule, apply, demand
from rlcore.testing.kit.runtime import RUNTIME_RULES
from rlcore.testing.kit.runtime.lab import RuntimeLab, RuntimeSource

GUARD = "test_every_rule_is_tested"


def _test_of(rule: Rule[Any]) -> Callable[..., None]:
    def test(self: Suite) -> None:
        reason = self.excused.get(rule.__name__)
        findings = tuple(apply(rule, lab) for lab in self._own_labs())
        report = Report(type(self).__name__, findings, {})
        if report.problems and reason is not None:
            pytest.xfail(reason)
        if report.problems:
            pytest.fail(str(report), pytrace=False)
        if rule.__name__ in report.untested:
            pytest.skip(report.untested[rule.__name__])
        if reason is not None:
            pytest.fail(f"it is excused ('{reason}'), but holds: take it out of excused", pytrace=False)

    test.__name__ = test.__qualname__ = f"test_{rule.__name__}"
    test.__doc__ = demand(rule)
    return test


class Suite:
    """What the classes below share. ``rules`` become tests named after them."""

    #: ``{rule: why it cannot hold here}``
    excused: ClassVar[Mapping[str, str]] = {}
    rules: ClassVar[Sequence[Rule[Any]]] = ()
    _problems: ClassVar[tuple[str, ...]] = ()
    _labs: ClassVar[Sequence[Lab]]

    def __init_subclass__(cls, rules: Sequence[Rule[Any]] | None = None) -> None:
        if rules is not None:
            cls.rules = rules
            for rule in rules:
                setattr(cls, f"test_{rule.__name__}", _test_of(rule))
            return
        # The guard itself stays, whatever a subclass calls by its name.
        replaced = (f"{GUARD} was overridden",) if GUARD in vars(cls) else ()
        cls._problems = (*cls._problems, *replaced)
        setattr(cls, GUARD, Suite.test_every_rule_is_tested)

    def labs(self) -> Sequence[Lab]:
        """What the rules look at; made once for a class."""
        raise NotImplementedError

    @classmethod
    def _own_labs(cls) -> Sequence[Lab]:
        if "_labs" not in vars(cls):
            cls._labs = cls().labs()
        return cls._labs

    @classmethod
    def teardown_class(cls) -> None:
        """Closes the labs after the last test."""
        for lab in vars(cls).get("_labs", ()):
            lab.close()

    def test_every_rule_is_tested(self) -> None:
        """No test was deleted, or overridden without a reason; no setting is misspelt, nothing unknown excused."""
        cls = type(self)
        problems = [*self._problems, *_left_out(cls), *_misspelt(cls)]
        try:
            check_excuses(self.excused, {rule.__name__ for rule in self.rules})
        except UserError as error:
            problems.append(str(error))
        if problems:
            pytest.fail(f"{cls.__name__}:\n" + "\n".join(f"  {problem}" for problem in problems), pytrace=False)


class EnvTests(Suite, rules=ENV_RULES):
    """The rules for environments. ``env`` is a name, a class or a callable, ``settings`` are what it is built with."""

    env: ClassVar[EnvSource]
    settings: ClassVar[Mapping[str, Any]] = {}
    num_envs: ClassVar[int] = 3
    #: How long a recording is at most.
    polls: ClassVar[int] = 600
    seed: ClassVar[int] = 1

    def labs(self) -> Sequence[Lab]:
        """One lab."""
        source = _given(type(self), "env")
        return [EnvLab(source, self.settings, num_envs=self.num_envs, polls=self.polls, seed=self.seed)]


class _GraphSuite(Suite, rules=()):
    """What policy graphs and their actors are tried with; what is None is as ``PolicyGraph.conformance`` says."""

    #: A name, or the class.
    graph: ClassVar[GraphSource]
    config: ClassVar[Mapping[str, Any] | None] = None
    #: An environment to act in, or pairs of spaces; by default some common spaces, as far as the graph takes them.
    env: ClassVar[EnvSource | None] = None
    env_settings: ClassVar[Mapping[str, Any] | None] = None
    spaces: ClassVar[Sequence[Spaces] | None] = None
    seed: ClassVar[int | None] = None

    def labs(self) -> Sequence[Lab]:
        """One for each environment."""
        return graph_labs(
            _given(type(self), "graph"),
            self.config,
            env=_given(type(self), "env"),
            env_settings=self.env_settings,
            spaces=self.spaces,
            seed=self.seed,
        )


class PolicyGraphTests(_GraphSuite, rules=POLICY_GRAPH_RULES):
    """The rules for policy graphs."""


class ActorTests(_GraphSuite, rules=ACTOR_RULES):
    """The rules for the actors that a policy graph hands out."""


class OptimizerTests(Suite, rules=OPTIMIZER_RULES):
    """The rules for optimizers; what is None is as ``PolicyOptimizer.conformance`` says."""

    #: A name, or the class.
    optimizer: ClassVar[OptimizerSource]
    config: ClassVar[Mapping[str, Any] | None] = None
    #: What it trains, and with which settings.
    graph: ClassVar[str | type[PolicyGraph] | None] = None
    graph_config: ClassVar[Mapping[str, Any] | None] = None
    #: Names of runtimes; by default every one that is installed.
    runtimes: ClassVar[Sequence[str] | None] = None
    #: In how many of its steps the return has to rise, and how many workers there are.
    steps: ClassVar[int | None] = None
    evaluators: ClassVar[int | None] = None
    #: Whether it learns from every row or counts it as dropped, and whether its results repeat on every runtime.
    uses_every_row: ClassVar[bool | None] = None
    repeats: ClassVar[bool | None] = None
    seed: ClassVar[int | None] = None

    def labs(self) -> Sequence[Lab]:
        """One for each runtime."""
        return optimizer_labs(
            _given(type(self), "optimizer"),
            self.config,
            graph=_given(type(self), "graph"),
            graph_config=self.graph_config,
            runtimes=self.runtimes,
            steps=self.steps,
            evaluators=self.evaluators,
            uses_every_row=self.uses_every_row,
            repeats=self.repeats,
            seed=self.seed,
        )


class RuntimeTests(Suite, rules=RUNTIME_RULES):
    """The rules for runtimes. ``runtime`` is a name, a class, or a function that makes one."""

    runtime: ClassVar[RuntimeSource]

    def labs(self) -> Sequence[Lab]:
        """One lab."""
        return [RuntimeLab(_given(type(self), "runtime"))]


class PluginTests(Suite, rules=PLUGIN_RULES):
    """The rules for an installed package as a whole; its parts have classes of their own."""

    #: The distribution's name.
    distribution: ClassVar[str]

    def labs(self) -> Sequence[Lab]:
        """One lab."""
        return [PluginLab(_given(type(self), "distribution"))]


def _base(cls: type[Suite]) -> type[Any]:
    """The class of this module that a subclass was derived from."""
    return next(own for own in cls.__mro__ if own.__module__ == __name__)


def _misspelt(cls: type[Suite]) -> list[str]:
    """Attributes of a subclass that are nearly those that are read; others are its own business."""
    base = _base(cls)
    read = {name for own in base.__mro__ for name in vars(own).get("__annotations__", {}) if not name.startswith("_")}
    own = {name for derived in cls.__mro__[: cls.__mro__.index(base)] for name in vars(derived)}
    unread = sorted(name for name in own - read if not name.startswith(("_", "test")) and not hasattr(base, name))
    return [f"'{name}' is not read{hint}" for name in unread if (hint := did_you_mean(name, read))]


def _left_out(cls: type[Suite]) -> list[str]:
    """The tests of the rules that a subclass has taken away."""
    base = _base(cls)
    problems = []
    for rule in cls.rules:
        name = f"test_{rule.__name__}"
        found = inspect.getattr_static(cls, name, None)
        if found is inspect.getattr_static(base, name):
            continue
        if not callable(found):
            problems.append(f"{name} was deleted; name '{rule.__name__}' in excused, with the reason")
        elif not _has_reason(found):
            problems.append(f"{name} was overridden without pytest.mark.xfail(reason=...); say why")
    return problems


def _has_reason(test: Any) -> bool:
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    return any(mark.name == "xfail" and str(mark.kwargs.get("reason", "")).strip() for mark in marks)


def _given(cls: type[Suite], name: str) -> Any:
    """An attribute as it was written: a function given as the part is no method. ``UserError`` where it is missing."""
    try:
        found = inspect.getattr_static(cls, name)
    except AttributeError:
        raise UserError(f"{cls.__name__}: set '{name}' to what is to be tested") from None
    return found.__func__ if isinstance(found, staticmethod) else found

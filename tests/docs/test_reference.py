"""The reference pages leave nothing out: keys, options, events, exports and errors are compared with the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

import rlcore
from rlcore import config, errors, hooks, registry
from rlcore.acting import ModelConfig
from rlcore.cli import COMMANDS
from rlcore.progress import ROW_KEYS
from rlcore.testing.kit.env import ENV_RULES
from rlcore.testing.kit.optimizer import OPTIMIZER_RULES
from rlcore.testing.kit.plugin import PLUGIN_RULES
from rlcore.testing.kit.policy import ACTOR_RULES, POLICY_GRAPH_RULES
from rlcore.testing.kit.rules import demand
from rlcore.testing.kit.runtime import RUNTIME_RULES

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


def code_words(text: str) -> set[str]:
    """Everything that stands in code style, outside blocks."""
    return {word for part in re.findall(r"`([^`\n]+)`", text) for word in re.split(r"[^\w.-]+", part)}


@pytest.mark.parametrize(
    "section",
    [
        config.RunConfig,
        config.EvaluatorSettings,
        config.EvaluationSettings,
        config.CheckpointSettings,
        config.ResourceSettings,
    ],
)
def test_every_key_of_the_config(section: type[BaseModel]) -> None:
    assert set(section.model_fields) <= code_words(page("configuration.md"))


def test_every_key_of_a_model() -> None:
    assert set(ModelConfig.model_fields) <= code_words(page("configuration.md"))


@pytest.mark.parametrize("kind", ["policy_graph", "optimizer"])
def test_every_setting_of_our_own_parts(kind: str) -> None:
    text = code_words(page("configuration.md"))
    for plugin in registry.available(kind):
        if plugin.distribution and plugin.distribution.startswith("rlcore") and "example" not in plugin.distribution:
            fields = set(registry.load_plugin(plugin).Config.model_fields)
            assert fields <= text, plugin.name


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_of_every_command(name: str) -> None:
    sections = page("command-line.md").split("\n## ")
    (text,) = [section for section in sections if section.startswith(f"rlcore {name}\n")]
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(registry.import_module(module, name), attribute)
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert options - {"--debug"} <= code_words(text)


def test_every_event_with_its_arguments() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page("plugins.md"), re.MULTILINE))
    for name in hooks.event_names():
        arguments = list(inspect.signature(getattr(hooks.Events, name)).parameters)[1:]
        assert re.findall(r"`(\w+)`", rows[name]) == arguments, name


def test_every_kind_of_plugin_with_its_group() -> None:
    text = page("plugins.md")
    for kind in registry.KINDS.values():
        assert f"| `{kind.name}` | `{kind.group}` |" in text


def test_every_export_of_the_kernel() -> None:
    text = page("api.md")
    assert [name for name in rlcore.__all__ if f"rlcore.{name}" not in text] == []


def test_every_error() -> None:
    text = code_words(page("api.md"))
    roots = {"RlcoreError", "PluginError", "BatchError"}
    assert {name for name, each in vars(errors).items() if inspect.isclass(each)} - roots <= text


def test_every_key_of_a_row() -> None:
    assert set(ROW_KEYS) <= code_words(page("runs.md"))


def test_every_rule_of_the_conformance_kit() -> None:
    text = page("conformance.md")
    kinds = (ENV_RULES, POLICY_GRAPH_RULES, ACTOR_RULES, OPTIMIZER_RULES, RUNTIME_RULES, PLUGIN_RULES)
    for section, rules in zip(text.partition("## The rules")[2].split("\n### ")[1:], kinds, strict=True):
        rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
        assert rows == [(rule.__name__, demand(rule).replace("``", "`")) for rule in rules]

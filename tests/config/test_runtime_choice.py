"""A runtime is named alone or with settings beside it, which are checked against what it knows."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs import linear

from rlcore.config import parse_config
from rlcore.config_text import dump_yaml, parse_yaml
from rlcore.errors import ConfigError
from rlcore.resolve import Resolved, resolve
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")


def resolved(runtime: Any, overrides: dict[str, Any] | None = None, **config: Any) -> Resolved:
    return resolve({**linear(), **config, "runtime": runtime}, overrides=overrides)


@pytest.mark.parametrize(
    ("runtime", "overrides", "expected"),
    [
        ("ray", {}, "ray"),
        ({"name": "ray"}, {}, "ray"),
        (None, {}, "inline"),
        ({"name": "ray", "address": "head:1"}, {}, {"name": "ray", "address": "head:1"}),
        # An address asks for what has one.
        ({"address": "head:1"}, {}, {"name": "ray", "address": "head:1"}),
        (None, {"runtime.address": "auto"}, {"name": "ray", "address": "auto"}),
        ("ray", {"runtime.address": "head:1"}, {"name": "ray", "address": "head:1"}),
        ({"name": "ray", "address": "head:1"}, {"runtime.address": "head:2"}, {"name": "ray", "address": "head:2"}),
        # Settings belong to the runtime that they were given for.
        ({"name": "ray", "address": "head:1"}, {"runtime": "inline"}, "inline"),
        ({"name": "ray", "cpus": 3}, {"runtime.name": "ray"}, {"name": "ray", "cpus": 3}),
        ("inline", {"runtime": "ray", "runtime.address": "head:1"}, {"name": "ray", "address": "head:1"}),
    ],
)
def test_a_runtime_with_its_settings(runtime: Any, overrides: dict[str, Any], expected: Any) -> None:
    run = resolved(runtime, overrides)
    tree = run.config.to_tree()
    assert tree["runtime"] == expected
    assert parse_config(parse_yaml(dump_yaml(tree))).runtime == run.config.runtime
    assert resolve(tree).config == run.config


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ({"name": "inline", "address": "head:1"}, "runtime.address: unknown key; there are: name"),
        ({"name": "ray", "adress": "head:1"}, "runtime.adress: unknown key, did you mean 'address'?"),
        ({"name": "ray", "cpus": 0}, "runtime.cpus: should be greater than or equal to 1, not 0"),
        ({"name": "ray", "cpus": "2"}, "runtime.cpus: should be a valid integer, not '2'"),
        (5, "runtime: should be keys and values, not 5"),
        (
            {"name": "ray", "cpus": 2, "address": "head:1"},
            "runtime: 'cpus' is for a Ray that is started here, and 'address' names one that runs already",
        ),
    ],
)
def test_settings_that_a_runtime_does_not_know_are_refused(runtime: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved(runtime)
    assert str(caught.value) == message


def test_settings_of_another_runtime_are_said_to_be_left_out() -> None:
    run = resolved({"name": "ray", "address": "head:1"}, {"runtime": "inline"})
    assert run.provenance.left_out == {"runtime.address": "given for another runtime"}
    assert any("runtime.name='inline'" in line for line in run.provenance.lines(run.config))


def test_a_saved_run_goes_on_without_the_settings_of_another_runtime(tmp_path: Any) -> None:
    with Trainer(linear({"runtime": "inline"})) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved", overrides={"runtime": {"name": "inline"}}) as trainer:
        assert trainer.config.runtime.name == "inline"
    with pytest.raises(ConfigError, match=r"^runtime\.address: .* 127\.0\.0\.1:1\b"):
        Trainer.restore(tmp_path / "saved", overrides={"runtime": "ray", "runtime.address": "127.0.0.1:1"})

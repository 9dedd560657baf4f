"""Every installed recipe resolves with every framework, optimizer and tuned environment that it is made for."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import registry
from rlcore.errors import ConfigError
from rlcore.resolve import resolve

#: The framework whose graphs know every setting; those of others may be smaller.
COMPLETE = "torch"
OWN = (
    "rlcore-sync",
    "rlcore-replay",
    "rlcore-async",
    "rlcore-alphazero",
    "rlcore-es",
    "rlcore-model",
    "rlcore-offline",
)
RECIPES = [plugin.name for plugin in registry.available("algorithm") if plugin.distribution in OWN]


def cases() -> list[Any]:
    found = []
    for name in RECIPES:
        recipe = registry.load("algorithm", name)
        optimizers = sorted({recipe.optimizer, *recipe.optimizers})
        for framework in registry.frameworks(recipe.policy_graph):
            for env in ("Untuned-v0", *recipe.settings):
                found += [
                    pytest.param(name, framework, env, one, id=f"{name}-{framework}-{env}-{one}") for one in optimizers
                ]
    return found


def test_there_are_recipes() -> None:
    assert {"pg", "a2c", "ppo", "dqn", "rainbow", "ddpg", "td3", "sac"} <= set(RECIPES)


@pytest.mark.parametrize(("name", "framework", "env", "optimizer"), cases())
def test_a_recipe_sets_nothing_that_its_parts_do_not_know(name: str, framework: str, env: str, optimizer: str) -> None:
    pytest.importorskip({"tf": "tensorflow"}.get(framework, framework))
    run = resolve({"algorithm": name, "framework": framework, "env": env}, overrides={"optimizer.name": optimizer})
    if framework == COMPLETE:
        assert run.provenance.left_out == {}
    assert run.config.runtime.name == "inline" and run.config.stop == {}


@pytest.mark.parametrize("name", RECIPES)
def test_B164_every_setting_of_the_parts_is_accepted_by_itself(name: str) -> None:
    pytest.importorskip(COMPLETE)
    base = {"algorithm": name, "framework": COMPLETE, "env": "Untuned-v0"}
    tree = resolve(base).config.to_tree()
    keys = [f"{section}.{key}" for section in ("policy", "model", "optimizer") for key in tree[section]]
    assert {"policy.learning_rate", "policy.gamma", "model.hidden"} <= set(keys)
    sizes = ("epochs", "minibatch_size", "rounds", "pairs", "members")
    assert {f"optimizer.{size}" for size in sizes} & set(keys)
    for dotted in keys:
        section, key = dotted.split(".")
        run = resolve(base, overrides={dotted: tree[section][key]})
        assert run.config.to_tree()[section][key] == tree[section][key]
        with pytest.raises(ConfigError, match=rf"^{section}\.{key}x: unknown key, did you mean '{key}'\?$"):
            resolve(base, overrides={f"{dotted}x": 1})

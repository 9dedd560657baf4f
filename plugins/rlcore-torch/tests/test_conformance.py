"""The package, its policy graphs and their actors, held to the contracts of their kinds."""

from __future__ import annotations

from rlcore.testing.suites import ActorTests, PluginTests, PolicyGraphTests


class TestPackage(PluginTests):
    distribution = "rlcore-torch"


class TestPG(PolicyGraphTests):
    graph = "torch.pg"


class TestPGActor(ActorTests):
    graph = "torch.pg"


class TestA3C(PolicyGraphTests):
    graph = "torch.a3c"


class TestA3CWithAdam(PolicyGraphTests):
    graph = "torch.a3c"
    config = {"update_rule": "adam", "normalize_advantages": True, "learning_rate": [[0, 1e-3], [2000, 1e-2]]}


class TestA3CActor(ActorTests):
    graph = "torch.a3c"


class TestPPO(PolicyGraphTests):
    graph = "torch.ppo"


class TestPPOWithEverySetting(PolicyGraphTests):
    graph = "torch.ppo"
    config = {
        "squash": True,
        "kl_coeff": 0.3,
        "value_clip": 0.5,
        "entropy_coeff": [[0, 0.1], [3000, 0.0]],
        "model": {"hidden": [8], "activation": "relu"},
    }


class TestPPOActor(ActorTests):
    graph = "torch.ppo"
    config = {"squash": True}

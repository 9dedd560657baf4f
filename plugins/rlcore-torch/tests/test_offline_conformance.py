"""The policy graphs that learn from recorded experience, held to the contracts of their kinds."""

from __future__ import annotations

from rlcore.testing.suites import ActorTests, PolicyGraphTests


class TestBC(PolicyGraphTests):
    graph = "torch.bc"
    config = {"entropy_coeff": 0.01, "model": {"hidden": [16]}}


class TestBCActor(ActorTests):
    graph = "torch.bc"


class TestMARWIL(PolicyGraphTests):
    graph = "torch.marwil"


class TestMARWILActor(ActorTests):
    graph = "torch.marwil"


class TestCQL(PolicyGraphTests):
    graph = "torch.cql"
    config = {"samples": 3, "model": {"hidden": [16], "activation": "relu"}}

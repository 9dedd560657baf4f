"""Actions over HTTP are those of the policy, for one client and for many at once, with their memories."""

from __future__ import annotations

import json
import threading
import urllib.request
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from support.fresh_policies import policy_of
from support.serving import Client, Held, fresh

from rlcore.loading import TrainedPolicy
from rlcore.serving.batcher import Batcher, Job, Overloaded

OBS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def test_actions_are_those_of_the_policy(serve: Any, client: Any) -> None:
    own, asking = fresh(), client(serve())
    for obs in OBS[:5]:
        assert asking.act(observation=obs.tolist()) == (200, {"action": own.act(obs), "weights_version": 1})
    assert asking.act(observations=OBS.tolist()) == (200, {"actions": own.act(OBS).tolist(), "weights_version": 1})
    assert len(set(own.act(OBS).tolist())) > 1


def test_a_plain_client_is_enough(serve: Any) -> None:
    request = urllib.request.Request(
        f"{serve().url}/act",
        data=json.dumps({"observation": [0, 0.5, 1]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert json.loads(answer.read())["action"] in (1, 2, 3)


def test_memories_go_back_and_forth(serve: Any, client: Any) -> None:
    own, asking = fresh(lstm=4), client(serve(fresh(lstm=4)))
    memory = None
    told, alone = [], []
    for obs in OBS[:10]:
        status, answer = asking.act(observation=obs.tolist(), memory=memory)
        assert status == 200
        memory = answer["memory"]
        told.append(answer["action"])
        alone.append(asking.act(observation=obs.tolist())[1]["action"])
    assert told == [own.act(obs) for obs in OBS[:10]]
    assert told != alone
    # Two episodes of several; the second begins anew with the third step.
    own.reset()
    memories: Any = None
    for step in range(4):
        rows = OBS[[step, 20 + step]]
        if step == 2:
            own.reset([1])
            memories[1] = None
        _, answer = asking.act(observations=rows.tolist(), memories=memories)
        memories = answer["memories"]
        assert answer["actions"] == own.act(rows).tolist()


def test_nested_spaces(serve: Any, client: Any) -> None:
    where = Tuple([Discrete(4, start=2), Box(-1.0, 1.0, (2, 2))])
    space = Dict(action_mask=MultiBinary(3), where=where, z=Box(0, 255, (2,), np.uint8))
    acted = Dict(b=Box(-0.1, 0.1, (2,)), a=Tuple([Discrete(3), Box(0.0, 1.0, ())]))
    saved = policy_of(space, acted, "mean_std")
    own = TrainedPolicy(saved, saved.build())
    one = {"action_mask": [1, 0, 1], "where": [3, [[0.1, 0.2], [0.3, 0.4]]], "z": [7, 255]}
    other = {**one, "action_mask": [0, 1, 0]}
    expected = [own.act(obs) for obs in (one, other)]
    asking = client(serve(TrainedPolicy(saved, saved.build())))
    _, answer = asking.act(observations=[one, other])
    for found, wanted in zip(answer["actions"], expected, strict=True):
        np.testing.assert_allclose(found["b"], wanted["b"], rtol=1e-6)
        assert found["a"][0] == wanted["a"][0]
    assert answer["actions"][1]["a"][0] == 1
    status, answer = asking.act(observation={**one, "action_mask": [0, 0, 0]})
    assert status == 422 and "leaves no legal action" in answer["error"]


def test_many_clients_act_in_few_calls(serve: Any, client: Any) -> None:
    server, own = serve(window_s=0.05), fresh()
    found: dict[int, int] = {}

    def ask(number: int) -> None:
        asking = Client(server)
        for step in range(3):
            row = (3 * number + step) % len(OBS)
            found[row] = asking.act(observation=OBS[row].tolist())[1]["action"]
        asking.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict(enumerate(own.act(OBS[:39]).tolist()))
    assert server.batcher.acted == 39 and server.batcher.calls <= 20


def job(value: float = 0.0, n: int = 1) -> Job:
    return Job(np.full((n, 3), value, np.float32), fresh().begin(n))


def test_those_that_wait_act_together_in_order_up_to_the_limit() -> None:
    held = Held()
    batcher = Batcher(held, rows=4, waiting=10, window=0.0)  # type: ignore[arg-type]
    first = job()
    batcher.submit(first)
    assert held.entered.wait(20)
    others = [job(n=2), job(), job(n=2), job(n=3)]
    for one in others:
        batcher.submit(one)
    assert batcher.waiting == 4
    held.go.set()
    for one in [first, *others]:
        actions, memory = one.result(20)
        assert len(actions) == one.rows and memory.t.tolist() == [1] * one.rows
    assert held.rows == [1, 3, 2, 3]
    batcher.close()


def test_no_more_wait_than_may_and_the_end_answers_them() -> None:
    held = Held()
    batcher = Batcher(held, rows=4, waiting=2, window=0.0)  # type: ignore[arg-type]
    jobs = [job(), job(), job()]
    batcher.submit(jobs[0])
    assert held.entered.wait(20)
    batcher.submit(jobs[1])
    batcher.submit(jobs[2])
    with pytest.raises(Overloaded):
        batcher.submit(job())
    with pytest.raises(TimeoutError):
        jobs[1].result(0.0)
    held.go.set()
    batcher.close()
    assert all(len(one.result(0.0)[0]) == 1 for one in jobs)
    with pytest.raises(Overloaded):
        batcher.submit(job())


def test_a_fault_is_everybodys_and_the_next_act() -> None:
    held = Held()
    held.go.set()
    batcher = Batcher(held, rows=4, waiting=5, window=0.0)  # type: ignore[arg-type]
    broken, fine = job(99.0), job()
    batcher.submit(broken)
    with pytest.raises(RuntimeError, match="it broke"):
        broken.result(20)
    batcher.submit(fine)
    assert len(fine.result(20)[0]) == 1
    batcher.close()


def test_who_cannot_act_does_not_hold_up_the_others() -> None:
    space = Dict(action_mask=MultiBinary(3), x=Box(-1.0, 1.0, (2,)))
    saved = policy_of(space, Discrete(3))
    policy = TrainedPolicy(saved, saved.build())
    batcher = Batcher(policy, rows=8, waiting=9, window=0.2)
    masks = ([0, 1, 0], [0, 0, 0], [0, 0, 1])
    jobs = [Job(policy.read({"action_mask": mask, "x": [0, 0]})[0], policy.begin(1)) for mask in masks]
    for one in jobs:
        batcher.submit(one)
    assert [int(jobs[i].result(20)[0][0]) for i in (0, 2)] == [1, 2]
    with pytest.raises(Exception, match="leaves no legal action"):
        jobs[1].result(20)
    batcher.close()

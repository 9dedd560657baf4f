from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlcore.acting import to_env
from rlcore.batch import SampleBatch
from rlcore.errors import NonFiniteError, SpaceError, UserError
from rlcore.graph_spec import GraphSpec
from rlcore.optim import clip_by_global_norm, clip_factor
from rlcore.policy_graph import PolicyGraph
from rlcore_torch import A3C, PPO, PolicyGradient, devices, twin_mlp

Build = Callable[..., Any]
Sample = Callable[..., SampleBatch]

OBSERVATIONS = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
DISCRETE = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
CROOKED = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))

GRAPHS = [PolicyGradient, A3C, PPO]
SPACES: dict[str, tuple[Any, dict[str, Any]]] = {
    "discrete": (DISCRETE, {}),
    "box": (BOX, {"initial_log_std": -0.5}),
    "squashed": (CROOKED, {"squash": True}),
}
each_graph = pytest.mark.parametrize("graph", GRAPHS)
each_space = pytest.mark.parametrize("space", SPACES)


def same_weights(a: Any, b: Any, tolerance: float = 0.0) -> None:
    first, second = a.get_weights(), b.get_weights()
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_allclose(array, second[name], rtol=0.0, atol=tolerance, err_msg=name)


@each_graph
@each_space
def test_actor_acts_like_the_graph(build: Build, graph: type[PolicyGraph], space: str) -> None:
    action_space, settings = SPACES[space]
    own = build(graph, action_space, **settings)
    actor = pickle.loads(pickle.dumps(own.actor()))
    obs = np.random.default_rng(1).standard_normal((200, 4)).astype(np.float32)
    for explore in (True, False):
        ours = own.act(obs, explore=explore, rng=np.random.default_rng(2))
        theirs = actor.act(obs, explore=explore, rng=np.random.default_rng(2))
        np.testing.assert_allclose(ours.actions, theirs.actions, rtol=1e-5, atol=1e-5)
        assert ours.actions.dtype == theirs.actions.dtype
        assert ours.extras.keys() == theirs.extras.keys()
        for name, column in ours.extras.items():
            np.testing.assert_allclose(column, theirs.extras[name], rtol=1e-5, atol=1e-5)
            assert column.dtype == theirs.extras[name].dtype == np.float32


@each_graph
@each_space
def test_postprocessing_is_the_same_in_graph_and_actor(
    build: Build, sample: Sample, graph: type[PolicyGraph], space: str
) -> None:
    action_space, settings = SPACES[space]
    own = build(graph, action_space, **settings)
    batch = sample(own)
    ours, theirs = own.postprocess(batch), own.actor().postprocess(batch)
    assert ours.rows.keys() == theirs.rows.keys()
    assert ours.cuts.keys() == theirs.cuts.keys()
    for name in ours.rows:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-5)


@each_space
@pytest.mark.parametrize("steps", [1, 8, 64])
def test_B094_ratio_is_one_before_the_first_update(build: Build, sample: Sample, space: str, steps: int) -> None:
    action_space, settings = SPACES[space]
    own = build(PPO, action_space, **settings)
    batch = own.postprocess(sample(own, steps=steps))
    stats = own.learn(batch).stats
    assert stats["clip_fraction"] == 0.0
    assert stats["kl"] == 0.0 if steps == 1 else abs(stats["kl"]) < 1e-12


def test_B094_log_probability_is_of_the_action_before_it_is_clipped(build: Build) -> None:
    own = build(PPO, BOX)
    weights = own.get_weights()
    own.set_weights({"policy.out.bias": np.full_like(weights["policy.out.bias"], 5.0)})
    obs = np.zeros((50, 4), np.float32)
    out = own.act(obs, rng=np.random.default_rng(0))
    assert out.actions.min() > 1.0
    assert (to_env(out.actions, BOX) == 1.0).all()
    expected = -0.5 * ((out.actions - 5.0) ** 2).sum(1) - np.log(2.0 * np.pi)
    np.testing.assert_allclose(out.extras["action_logp"], expected, atol=1e-4)


@each_graph
def test_B091_discrete_actions_count_from_zero(build: Build, graph: type[PolicyGraph]) -> None:
    own = build(graph, gymnasium.spaces.Discrete(1, start=2))
    actions = own.act(np.zeros((3, 4), np.float32), rng=np.random.default_rng(0)).actions
    assert actions.dtype == np.int64
    assert actions.tolist() == [0, 0, 0]
    assert np.asarray(to_env(actions, own.action_space)).tolist() == [2, 2, 2]


@each_graph
def test_B092_unbounded_box(build: Build, sample: Sample, graph: type[PolicyGraph]) -> None:
    unbounded = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    with pytest.raises(SpaceError, match="cannot rescale an unbounded box"):
        build(graph, unbounded, squash=True)
    own = build(graph, unbounded)
    output = own.learn(own.postprocess(sample(own)))
    assert not output.skipped
    assert all(np.isfinite(array).all() for array in own.get_weights().values())


@each_graph
def test_B093_squashed_mean_is_the_middle_of_the_box(build: Build, graph: type[PolicyGraph]) -> None:
    own = build(graph, CROOKED, squash=True)
    own.set_weights({"policy.out.weight": np.zeros((64, 2), np.float32)})
    actions = own.act(np.ones((1, 4), np.float32), explore=False, rng=np.random.default_rng(0)).actions
    assert actions.tolist() == [[5.0, -1.0]]


@each_graph
@pytest.mark.parametrize(
    "action_space",
    [
        gymnasium.spaces.Text(3),
        gymnasium.spaces.Tuple((BOX, gymnasium.spaces.Sequence(DISCRETE))),
    ],
    ids=str,
)
def test_B096_spaces_that_cannot_be_acted_in_are_refused_by_name(
    build: Build, graph: type[PolicyGraph], action_space: Any
) -> None:
    with pytest.raises(SpaceError, match=r"action (space Text|'1' Sequence).* cannot be acted in"):
        build(graph, action_space)


@each_graph
def test_observations_of_any_shape(build: Build, sample: Sample, graph: type[PolicyGraph]) -> None:
    for shape in ((), (2, 3, 4)):
        own = build(graph, observation_space=gymnasium.spaces.Box(-1.0, 1.0, shape, np.float32))
        assert not own.learn(own.postprocess(sample(own))).skipped


@each_graph
def test_other_observation_spaces_are_refused_by_name(build: Build, graph: type[PolicyGraph]) -> None:
    with pytest.raises(SpaceError, match="Text"):
        build(graph, observation_space=gymnasium.spaces.Text(5))


@each_graph
def test_weights_are_copies_with_canonical_layouts(build: Build, graph: type[PolicyGraph]) -> None:
    own = build(graph, BOX, model={"hidden": (7,)})
    weights = own.get_weights()
    shapes = {name: array.shape for name, array in weights.items() if name.startswith("policy.")}
    assert shapes == {
        "policy.hidden_0.weight": (4, 7),
        "policy.hidden_0.bias": (7,),
        "policy.out.weight": (7, 2),
        "policy.out.bias": (2,),
        "policy.log_std": (2,),
    }
    assert own.acting == own.trainable == frozenset(weights)
    weights["policy.hidden_0.weight"][:] = 0.0
    assert own.get_weights()["policy.hidden_0.weight"].any()
    assert list(own.get_weights(frozenset({"policy.out.bias"}))) == ["policy.out.bias"]
    with pytest.raises(UserError, match="unknown weights nothing"):
        own.set_weights({"nothing": np.zeros(1, np.float32)})
    with pytest.raises(UserError, match="has shape"):
        own.set_weights({"policy.out.bias": np.zeros(3, np.float32)})


@each_graph
@each_space
def test_B076_B088_state_goes_on_exactly(build: Build, sample: Sample, graph: type[PolicyGraph], space: str) -> None:
    action_space, settings = SPACES[space]
    first = build(graph, action_space, **settings)
    batch = first.postprocess(sample(first))
    for _ in range(10):
        first.learn(batch)
    state = pickle.loads(pickle.dumps(first.get_state()))
    second = build(graph, action_space, seed=9, **settings)
    second.set_state(state)
    for _ in range(3):
        first.learn(batch)
        second.learn(batch)
    same_weights(first, second)


@each_graph
@each_space
def test_update_rule_moves_weights_like_the_graph(
    build: Build, sample: Sample, graph: type[PolicyGraph], space: str
) -> None:
    action_space, settings = SPACES[space]
    own = build(graph, action_space, **settings)
    rule = own.update_rule()
    weights = own.get_weights()
    state = rule.init(weights)
    batch = own.postprocess(sample(own))
    for _ in range(10):
        gradients = own.gradients(batch).gradients
        weights, state = rule.update(weights, gradients, state)
        own.apply_gradients(gradients)
        for name, array in own.get_weights().items():
            np.testing.assert_allclose(array, weights[name], atol=1e-6, err_msg=name)


def test_update_rule_of_adam_in_a3c(build: Build) -> None:
    assert type(build(A3C).update_rule()).__name__ == "RMSProp"
    assert type(build(A3C, update_rule="adam").update_rule()).__name__ == "Adam"


@pytest.mark.parametrize("norm", [1e-6, 1.4e-6, 1.6e-6, 1.0, 1e6])
@pytest.mark.parametrize("bound", [2e-6, 0.5])
def test_gradients_are_clipped_as_the_kernel_does(build: Build, norm: float, bound: float) -> None:
    # At norms of the size of the epsilon, which they are divided by with, it decides.
    own = build(PPO, max_grad_norm=bound)
    rng = np.random.default_rng(0)
    gradients = {name: rng.standard_normal(w.shape).astype(np.float32) for name, w in own.get_weights().items()}
    size = clip_by_global_norm(gradients, 1.0)[1]
    gradients = {name: gradient * np.float32(norm / size) for name, gradient in gradients.items()}
    own.apply_gradients(gradients)
    clipped, found = clip_by_global_norm(gradients, bound)
    assert clip_factor(found, bound) == min(1.0, bound / (found + 1e-6))
    for name, mean in own.get_state()["optimizer"]["mean"].items():
        np.testing.assert_allclose(mean, 0.1 * clipped[name], rtol=1e-5, atol=0.0)


@each_graph
def test_learning_is_gradients_applied(build: Build, sample: Sample, graph: type[PolicyGraph]) -> None:
    first, second = build(graph), build(graph)
    batch = first.postprocess(sample(first))
    units = np.array([5, 3, 60, 11])
    for _ in range(3):
        output = second.gradients(batch, units)
        assert output.count == 4
        second.apply_gradients(output.gradients)
        first.learn(first.pin(batch), units)
    same_weights(first, second)


@each_graph
def test_apply_gradients_checks_what_it_is_given(build: Build, sample: Sample, graph: type[PolicyGraph]) -> None:
    own = build(graph)
    before = own.get_weights()
    gradients = own.gradients(own.postprocess(sample(own))).gradients
    with pytest.raises(UserError, match=r"missing for policy\.out\.bias"):
        own.apply_gradients({name: array for name, array in gradients.items() if name != "policy.out.bias"})
    gradients["policy.out.bias"][0] = np.nan
    with pytest.raises(NonFiniteError):
        own.apply_gradients(gradients)
    for name, array in own.get_weights().items():
        np.testing.assert_array_equal(array, before[name])


@each_graph
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_B115_an_update_that_is_not_finite_changes_nothing(
    build: Build, sample: Sample, graph: type[PolicyGraph], poison: float
) -> None:
    own = build(graph, normalize_advantages=False)
    batch = own.postprocess(sample(own))
    own.learn(batch)
    before = own.get_state()
    advantages = batch["advantages"].copy()
    advantages[7] = poison
    output = own.learn(batch.with_rows(advantages=advantages))
    assert output.skipped
    after = own.get_state()
    assert after["optimizer"]["step"] == before["optimizer"]["step"] == 1
    for part in ("weights", *own.update_rule().slots()):
        old = before["weights"] if part == "weights" else before["optimizer"][part]
        new = after["weights"] if part == "weights" else after["optimizer"][part]
        for name, array in old.items():
            np.testing.assert_array_equal(array, new[name])
    assert not own.learn(batch).skipped


@each_graph
@each_space
def test_two_devices_learn_like_one(build: Build, sample: Sample, graph: type[PolicyGraph], space: str) -> None:
    action_space, settings = SPACES[space]
    one = build(graph, action_space, **settings)
    two = build(graph, action_space, devices=("cpu", "cpu"), **settings)
    batch = one.postprocess(sample(one))
    first, second = one.pin(batch), two.pin(batch)
    rng = np.random.default_rng(0)
    for size in (33, 64, 1, 2, 33, 32, -16):
        # The last of them are all on the second device.
        units = rng.permutation(64)[:size] if size != -16 else np.arange(40, 56)
        ours, theirs = one.learn(first, units), two.learn(second, units)
        assert ours.stats.keys() == theirs.stats.keys()
        for name, number in ours.stats.items():
            assert theirs.stats[name] == pytest.approx(number, rel=1e-4, abs=1e-6), name
    one.learn(first)
    two.learn(second)
    same_weights(one, two, 1e-6)


def test_B146_each_device_holds_its_share_of_the_samples_alone(build: Build, sample: Sample) -> None:
    one, three = build(PPO), build(PPO, devices=("cpu", "cpu", "cpu"))
    batch = one.postprocess(sample(one))
    (whole,), shares = one.pin(batch).held.columns, three.pin(batch).held.columns
    for name, column in whole.items():
        assert [len(share[name]) for share in shares] == [22, 21, 21]
        assert torch.equal(torch.cat([share[name] for share in shares]), column)


@each_graph
@each_space
def test_rows_that_are_computed_some_at_a_time_give_what_all_at_once_do(
    build: Build, sample: Sample, graph: type[PolicyGraph], space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    action_space, settings = SPACES[space]
    one = build(graph, action_space, **settings)
    monkeypatch.setattr(twin_mlp, "_NUMBERS_AT_ONCE", 64 * 30)
    other = build(graph, action_space, **settings)
    batch = one.postprocess(sample(one))
    for units in (None, np.arange(31), np.arange(30)):
        ours, theirs = one.learn(batch, units), other.learn(batch, units)
        assert theirs.stats == pytest.approx(ours.stats, rel=1e-4, abs=1e-6)
    same_weights(one, other, 1e-6)


def test_B123_gradients_are_averaged_over_samples(build: Build, sample: Sample) -> None:
    one, three = build(A3C), build(A3C, devices=("cpu", "cpu", "cpu"))
    batch = one.postprocess(sample(one))
    units = np.arange(4)  # shares of 2, 1 and 1
    ours, theirs = one.gradients(batch, units), three.gradients(batch, units)
    for name, gradient in ours.gradients.items():
        np.testing.assert_allclose(theirs.gradients[name], gradient, atol=1e-6)


def test_devices_that_are_not_there(build: Build) -> None:
    with pytest.raises(UserError, match="no device 'toaster'"):
        build(PPO, devices=("toaster",))
    with pytest.raises(UserError, match="cuda:99"):
        build(PPO, devices=("cuda:99",))
    with pytest.raises(UserError, match="at least one"):
        build(PPO, devices=())


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch has three threads, as it would on a machine with three cores where nobody says otherwise."""
    before = torch.get_num_threads()
    for name in devices.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices, "default_threads", lambda: {3, 6})
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_small_models_on_cpus_take_one_thread(build: Build) -> None:
    build(PPO, model={"hidden": (1024, 1024)})
    assert torch.get_num_threads() == 3
    build(PPO)
    assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("threads")
def test_threads_that_the_user_has_set_stay(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    build(PPO)
    assert torch.get_num_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(2)
    build(PPO)
    assert torch.get_num_threads() == 2


def test_what_torch_starts_with_is_known() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in devices.THREAD_VARIABLES}
    code = "import torch; from rlcore_torch import devices; print(torch.get_num_threads() in devices.default_threads())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@each_graph
def test_read_only_batches_are_learnt_from_and_left_alone(
    build: Build, sample: Sample, graph: type[PolicyGraph], recwarn: pytest.WarningsRecorder
) -> None:
    own = build(graph)
    batch = own.postprocess(sample(own))
    for column in (*batch.rows.values(), *batch.cuts.values()):
        column.flags.writeable = False
    units = np.arange(10)
    units.flags.writeable = False
    own.learn(own.pin(batch), units)
    assert not [str(warning.message) for warning in recwarn]


@each_graph
def test_pinned_samples_do_not_follow_the_sampler(build: Build, sample: Sample, graph: type[PolicyGraph]) -> None:
    first, second = build(graph), build(graph)
    batch = first.postprocess(sample(first))
    pinned = first.pin(batch)
    second.learn(second.pin(batch))
    batch["obs"][:] = 0.0
    first.learn(pinned)
    same_weights(first, second)


@each_graph
def test_nothing_to_learn_from(build: Build, sample: Sample, graph: type[PolicyGraph]) -> None:
    own = build(graph)
    pinned = own.pin(own.postprocess(sample(own)))
    with pytest.raises(UserError, match="no sample"):
        own.learn(pinned, np.zeros(0, np.int64))


@each_graph
def test_learning_rate_schedule_goes_by_environment_steps(build: Build, graph: type[PolicyGraph]) -> None:
    from rlcore.policy_graph import Progress

    own = build(graph, learning_rate=[[0, 1.0], [100, 0.5]])
    assert own.update_rule().learning_rate == 1.0
    own.on_progress(Progress(env_steps=50))
    assert own.update_rule().learning_rate == 0.75
    other = build(graph, learning_rate=[[0, 1.0], [100, 0.5]])
    other.set_state(own.get_state())
    assert other.update_rule().learning_rate == 0.75


@each_graph
def test_a_spec_builds_the_same_graph_twice(graph: type[PolicyGraph]) -> None:
    spec = GraphSpec(graph, OBSERVATIONS, DISCRETE, graph.Config(), np.random.SeedSequence(3))
    same_weights(spec.build(), pickle.loads(pickle.dumps(spec)).build())


def test_unpickling_an_actor_imports_no_framework(build: Build, tmp_path: Any) -> None:
    path = tmp_path / "actor"
    path.write_bytes(pickle.dumps(build(PPO, CROOKED, squash=True).actor()))
    code = f"import pickle, sys; pickle.load(open({str(path)!r}, 'rb')); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_does_not_import_torch() -> None:
    code = (
        "import sys, rlcore_torch; assert 'torch' not in sys.modules; dir(rlcore_torch)\n"
        "assert 'torch' not in sys.modules; rlcore_torch.PPO; assert 'torch' in sys.modules\n"
        "assert rlcore_torch.PPO is __import__('rlcore_torch.ppo').PPO"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'QLearning'"):
        import rlcore_torch

        rlcore_torch.QLearning  # noqa: B018

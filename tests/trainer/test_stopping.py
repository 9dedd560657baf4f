from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.runs import linear, two_agents

from rlcore.errors import ConfigError
from rlcore.evaluator_messages import Metrics
from rlcore.policy_optimizer import StepResult
from rlcore.progress import ROW_KEYS, Counters, EpisodeWindow, Iteration, make_row, measured
from rlcore.resolve import resolve
from rlcore.sampling.episode import Episode
from rlcore.stepping import step_together
from rlcore.stopping import StopRule
from rlcore.trainer import Trainer


def row(**values: Any) -> dict[str, Any]:
    return {**dict.fromkeys(ROW_KEYS, 0), "episodes": 100, **values}


@pytest.mark.parametrize(
    ("target", "value", "reached"),
    [
        (475.0, 474.9, False),
        (475.0, 475.0, True),
        (475.0, 500.0, True),
        (-200.0, -200.1, False),
        (-200.0, -150.0, True),
    ],
)
def test_a_return_is_reached_at_or_above_whatever_its_sign(target: float, value: float, reached: bool) -> None:
    expected = f"episode_return_mean={target:g}" if reached else None
    assert StopRule({"episode_return_mean": target}).reached(row(episode_return_mean=value)) == expected


def test_any_of_the_keys_stops_a_run() -> None:
    rule = StopRule({"episode_return_mean": 475, "env_steps": 500_000})
    assert rule.reached(row(episode_return_mean=3.0, env_steps=499_999)) is None
    assert rule.reached(row(episode_return_mean=3.0, env_steps=500_000)) == "env_steps=500000"
    assert StopRule({"kl": 0.5}).reached(row(kl=0.75)) == "kl=0.5"
    assert StopRule({}).reached(row()) is None


def test_B156_a_value_that_is_not_known_yet_reaches_nothing() -> None:
    assert StopRule({"episode_return_mean": -1e9}).reached(row(episode_return_mean=None)) is None
    assert StopRule({"evaluation_return_mean": -1e9}).reached(row(evaluation_return_mean=None)) is None
    assert StopRule({"env_steps": 1}).reached({}) is None


def test_B156_stopping_on_the_training_return_waits_for_a_hundred_episodes() -> None:
    rule = StopRule({"episode_return_mean": 20})
    assert rule.reached(row(episode_return_mean=30.0, episodes=99)) is None
    assert rule.reached(row(episode_return_mean=30.0, episodes=100)) == "episode_return_mean=20"
    assert StopRule({"evaluation_return_mean": 20}).reached(row(evaluation_return_mean=30.0, episodes=3))


def test_B163_a_misspelt_stop_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^stop\.env_step: unknown row key, did you mean 'env_steps'\?$"):
        StopRule({"env_step": 5})
    rule = StopRule({"kl": 0.1})
    rule.note(["kl", "loss"], complete=True)
    rule.check()
    rule = StopRule({"kll": 0.1})
    rule.note(["kl", "loss"], complete=True)
    with pytest.raises(ConfigError, match=r"^stop\.kll: rows have no such key, did you mean 'kl'\?$"):
        rule.check()


def test_a_stop_key_is_refused_only_once_every_policy_has_shown_its_statistics() -> None:
    rule = StopRule({"b.kl": 0.1, "env_steps": 5})
    rule.note([*ROW_KEYS, "a.kl", "a.loss"], complete=False)
    rule.check()
    assert rule.reached(row(**{"a.kl": 1.0})) is None
    rule.note([*ROW_KEYS, "b.kl"], complete=False)
    # Seen once, it is known, also where a later complete row lacks it.
    rule.note([*ROW_KEYS, "a.kl", "b.loss"], complete=True)
    rule.check()
    assert rule.get_state() == {"seen": ["a.kl", "a.loss", "b.kl", "b.loss"], "complete": True}
    wrong = StopRule({"c.kl": 0.1})
    wrong.set_state(rule.get_state())
    with pytest.raises(ConfigError, match=r"^stop\.c\.kl: rows have no such key, did you mean '.\.kl'\?$"):
        wrong.check()


def test_the_window_holds_the_last_hundred_episodes_of_the_whole_run() -> None:
    window = EpisodeWindow()
    assert window.return_mean is None and window.length_mean is None
    window.add(Episode(i, 0, float(i), 2 * i) for i in range(60))
    assert (window.return_mean, window.length_mean) == (29.5, 59.0)
    again = EpisodeWindow()
    again.set_state(window.get_state())
    again.add(Episode(i, 0, float(i), 2 * i) for i in range(60, 150))
    assert (again.return_mean, again.length_mean) == (99.5, 199.0)


def test_only_episodes_that_stand_for_the_run_are_in_the_window() -> None:
    episodes = [(i, Episode(0, slot, 10.0 * i + slot, 1)) for i in range(3) for slot in range(2)]
    for slots, expected in [
        ([None], 10.5),
        ([{1: [0], 2: [0, 1]}], (10 + 20 + 21) / 3),
        ([{2: [0, 1]}, None, {2: [1]}], 21.0),
        ([{}], None),
    ]:
        window = EpisodeWindow()
        window.add_representative(episodes, slots)
        assert window.return_mean == expected


def test_B122_a_row_adds_up_what_the_optimizers_did() -> None:
    counters = Counters(iteration=4, env_steps=100, updates=7)
    results = [
        StepResult(50, 60, 3, 1, 2, {"a": {"loss": 0.5}}, {"sample_s": 1.0, "learn_s": 2.0, "sync_s": 0.5}),
        StepResult(50, 40, 2, 0, 0, {"b": {"loss": 0.25}}, {"sample_s": 0.5, "learn_s": 1.0, "sync_s": 0.0}),
    ]
    counters.add(results, [Metrics(lost_steps=2), Metrics(lost_steps=1)], 50)
    found = make_row(counters, EpisodeWindow(), Iteration(results, 0, None, train_s=5.0, evaluation_s=0.0), ["a", "b"])
    assert tuple(found)[: len(ROW_KEYS)] == ROW_KEYS
    expected = {
        "iteration": 5,
        "env_steps": 150,
        "learnt_rows": 100,
        "updates": 12,
        "skipped_updates": 1,
        "dropped_rows": 2,
        "lost_steps": 3,
        "env_steps_per_s": 10.0,
        "sample_s": 1.5,
        "learn_s": 3.0,
        "sync_s": 0.5,
        "a.loss": 0.5,
        "b.loss": 0.25,
        "episode_return_mean": None,
        "evaluation_return_mean": None,
        "evaluation_episodes": 0,
    }
    assert {key: found[key] for key in expected} == expected


def test_a_statistic_with_the_name_of_a_row_key_does_not_replace_it() -> None:
    results = [StepResult(5, 5, 1, stats={"default": {"loss": 1.0, "episodes": 9.0}})]
    found = make_row(Counters(), EpisodeWindow(), Iteration(results, 0, None, 1.0, 0.0), ["default"])
    assert (found["loss"], found["episodes"], found["default.episodes"]) == (1.0, 0, 9.0)


def test_statistics_bear_their_policy_wherever_several_are_trained_whoever_has_learnt_this_time() -> None:
    results = [StepResult(5, 5, 1, stats={"a": {"loss": 1.0}, "b": {}})]
    iteration = Iteration(results, 0, None, 1.0, 0.0)
    assert measured(results) == {"a"}
    assert make_row(Counters(), EpisodeWindow(), iteration, ["a", "b"])["a.loss"] == 1.0
    assert make_row(Counters(), EpisodeWindow(), iteration, ["a"])["loss"] == 1.0


class OnlyLeft:
    """Steps after which only the left policy has statistics, so many times: the other got no samples."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, optimizers: Any, is_cut_short: Any) -> list[StepResult]:
        results = step_together(optimizers, is_cut_short)
        self.left -= 1
        if self.left < 0:
            return results
        return [replace(result, stats={k: v for k, v in result.stats.items() if k == "left"}) for result in results]


def test_a_stop_key_of_a_policy_without_samples_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcore.trainer.step_together", OnlyLeft(2))
    config = two_agents({"stop": {"iteration": 9, "right.policy_loss": -1e9}})
    with Trainer(config) as trainer:
        result = trainer.train()
    assert (result["status"], result["stop_reason"]) == ("stopped", "right.policy_loss=-1e+09")
    assert result["iteration"] == 3


def test_a_stop_key_seen_before_a_resume_stays_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    config = two_agents({"stop": {"iteration": 1, "right.policy_loss": 1e9}})
    with Trainer(config) as trainer:
        trainer.train()
        trainer.save(tmp_path / "saved")
    monkeypatch.setattr("rlcore.trainer.step_together", OnlyLeft(9))
    monkeypatch.setattr("rlcore.trainer.measured", lambda results: {"left", "right"})
    with Trainer.restore(tmp_path / "saved", overrides={"stop.iteration": 3}, trust=True) as restored:
        assert restored.train()["stop_reason"] == "iteration=3"


def test_a_run_stops_on_its_return_only_with_a_hundred_episodes_behind_it() -> None:
    with Trainer(linear({"stop": {"iteration": 500, "episode_return_mean": 1}})) as trainer:
        result = trainer.train()
    assert result["stop_reason"] == "episode_return_mean=1" and result["status"] == "stopped"
    assert 100 <= result["episodes"] < 110


def test_B156_no_finished_episode_gives_null_and_not_an_old_value() -> None:
    config = linear(
        {"env": "rlcore.testing.environments:Count", "env_settings": {"length": 60}, "stop": {"iteration": 5}}
    )
    with Trainer(config) as trainer:
        rows = [trainer.step() for _ in range(4)]
    assert [row["episodes_new"] for row in rows] == [0, 0, 3, 0]
    assert [row["episode_return_mean"] for row in rows] == [None, None, 60.0, 60.0]
    assert [row["episode_length_mean"] for row in rows] == [None, None, 60.0, 60.0]


def test_a_stop_key_that_no_row_has_ends_the_run_after_the_first(tmp_path: Any) -> None:
    config = linear({"stop": {"iteration": 3, "enthropy": 1}})
    refused = pytest.raises(ConfigError, match=r"^stop\.enthropy: rows have no such key, did you mean 'entropy'\?$")
    with Trainer(config, out=tmp_path / "run") as trainer, refused:
        trainer.train()
    assert not (tmp_path / "run").exists()


def test_a_stop_key_that_no_row_has_is_refused_before_a_run_goes_on(tmp_path: Any) -> None:
    with Trainer(linear({"stop.iteration": 1}), out=tmp_path / "run") as trainer:
        trainer.train()
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"^stop\.foo: rows have no such key"):
        Trainer.restore(tmp_path / "run", overrides={"stop.foo": 3})
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    with Trainer.restore(tmp_path / "run", overrides={"stop.entropy": -9}) as restored:
        assert restored.train()["stop_reason"] == "iteration=1"


def test_null_removes_a_stop_key(tmp_path: Any) -> None:
    run = resolve(linear({"stop": {"iteration": 1, "env_steps": 5}}), overrides={"stop.env_steps": None})
    assert run.config.stop == {"iteration": 1}
    assert not any("env_steps" in line for line in run.provenance.lines(run.config))
    with Trainer(run, out=tmp_path / "run") as trainer:
        trainer.train()
    changes = {"stop.iteration": None, "stop.updates": 2}
    with Trainer.restore(tmp_path / "run", overrides=changes) as restored:
        assert restored.config.stop == {"updates": 2}
        assert restored.train()["stop_reason"] == "updates=2"

"""Each rule for environments against environments that break it, and what it says of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from support import broken_envs as broken
from support import broken_models as models
from support.broken_envs import attributes, columns, ended, flags, tampered
from support.broken_models import CountModel, with_model

from rlcore.errors import EnvError
from rlcore.testing.environments import AliasingCount, Count, DictCountEnv, ScatteredCount, TwoAgentEnv
from rlcore.testing.kit.env import ENV_RULES, check_env, examine_env
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.report import ConformanceError
from rlcore.testing.kit.rules import examine

#: ``(rule, environment, what the rule says)``
BROKEN: list[tuple[str, Any, str]] = [
    ("can_be_played", broken.Raising, "ZeroDivisionError: no ground (broken_envs.py:"),
    (
        "can_be_played",
        tampered(lambda env, step: {"other": step}),
        "EnvError: poll() handed over group other, there are: default",
    ),
    ("says_what_it_is", attributes(name=""), "name is ''"),
    ("says_what_it_is", attributes(groups={}), "groups is {}"),
    ("says_what_it_is", attributes(groups={"default": ("obs", "actions")}), "groups['default'] is ('obs', 'actions')"),
    ("says_what_it_is", attributes(lockstep="yes"), "lockstep is 'yes' with 1 groups"),
    (
        "columns_have_one_row_each",
        columns(reward=lambda step: step.reward[:, None]),
        "reward has shape (3, 1) in poll 0, expected (3,) as slot has",
    ),
    ("columns_have_one_row_each", columns(obs=lambda step: step.obs[:2]), "obs has 2 rows in poll 0, expected 3"),
    (
        "columns_have_their_types",
        columns(reward=lambda step: step.reward.astype(np.float64)),
        "reward is float64, expected float32",
    ),
    (
        "columns_have_their_types",
        columns(terminated=lambda step: step.terminated.astype(np.int8)),
        "terminated is int8, expected bool",
    ),
    ("columns_have_their_types", columns(slot=lambda step: step.slot * 1.0), "slot is float64, expected integers"),
    (
        "columns_have_their_types",
        columns(agent_id=lambda step: [0, 0, 0]),
        "agent_id is a list, expected an array of integers",
    ),
    ("polls_have_rows", tampered(broken.no_rows), "poll 3 handed over no row"),
    ("polls_have_rows", broken.FromOne, "poll 0 has the slots 1, 2, 3"),
    ("polls_have_rows", broken.Backwards, "lockstep is true, but poll 0 handed over the slots 2, 1, 0"),
    ("polls_have_rows", tampered(broken.duplicated), "poll 0 has the same agent twice"),
    (
        "observations_are_in_their_space",
        columns(obs=lambda step: step.obs.astype(np.float64)),
        "obs is float64, expected float32 in poll 0",
    ),
    (
        "observations_are_in_their_space",
        columns(obs=lambda step: np.repeat(step.obs, 2, axis=1)),
        "obs has rows of shape (2,), expected (1,) in poll 0",
    ),
    (
        "observations_are_in_their_space",
        columns(obs=lambda step: {"camera": step.obs}),
        "obs has the leaves ['camera'], the space ['']",
    ),
    (
        "observations_are_in_their_space",
        attributes(groups={"default": (Box(0.0, 12.0, (1,), np.float32), Discrete(2))}),
        "final_obs holds [13.], which is not in Box(0.0, 12.0, (1,), float32) in poll 3",
    ),
    (
        "rewards_are_finite",
        columns(reward=lambda step: step.reward + np.where(step.first, np.float32(np.nan), np.float32(0.0))),
        "the reward of slot 0 is nan in poll 0",
    ),
    ("observations_have_memory_of_their_own", broken.SharedMemory, "final_obs shares memory with obs"),
    (
        "observations_have_memory_of_their_own",
        columns(obs=lambda step: np.broadcast_to(step.obs[:1], step.obs.shape)),
        "the rows of obs share memory",
    ),
    (
        "observations_have_memory_of_their_own",
        broken.WritesBetween,
        "what was handed over changed before the next send: obs/: [0, 0] is 0.0, expected 10.0 (3 differ)",
    ),
    (
        "reset_opens_every_slot",
        columns(first=lambda step: step.first & (step.env_step > 100)),
        "the row of slot 0 after reset() is not first",
    ),
    ("reset_opens_every_slot", tampered(broken.without_slot_0, broken.Loose), "slots [0] were never handed over"),
    (
        "endings_have_final_observations",
        columns(final_obs=lambda step: step.final_obs[:0]),
        "final_obs has 0 rows in poll 3, in which 3 rows ended",
    ),
    (
        "final_observations_are_not_those_of_the_reset",
        columns(final_obs=lambda step: np.array(step.obs[ended(step)])),
        "final_obs is the next episode's first observation in all of",
    ),
    (
        "an_episode_opens_after_each_ending",
        columns(first=lambda step: step.first & ~ended(step)),
        "slot 0 ended in poll 3, and its next row is not first",
    ),
    (
        "an_episode_opens_after_each_ending",
        columns(first=lambda step: step.first | (step.env_step == 2)),
        "slot 0 is first in poll 2, but no episode of its ended before",
    ),
    (
        "ended_agents_are_not_asked_to_act",
        broken.AsksTheEnded,
        "slot 0 ended in poll 3 and waits for an action that nothing can come of",
    ),
    (
        "nothing_is_paid_before_the_first_action",
        columns(reward=lambda step: step.reward + np.float32(0.5)),
        "slot 0 is paid 0.5 in poll 0 with its episode's first observation",
    ),
    (
        "episode_over_is_set_where_episodes_end",
        columns(episode_over=lambda step: flags(step, False)),
        "the agent of slot 0 has ended in poll 3, but episode_over is not set",
    ),
    (
        "episode_over_is_set_where_episodes_end",
        columns(episode_over=lambda step: flags(step, True)),
        "episode_over is set for slot 0 in poll 0, but no agent ended",
    ),
    (
        "episode_over_is_set_where_episodes_end",
        broken.HalfOver,
        "slot 0 has rows with and without episode_over in poll 8",
    ),
    (
        "episode_over_is_set_where_episodes_end",
        lambda num_envs: broken.LeavesOneAlive(num_envs, lengths=(4, 8)),
        "episode_over is set for slot 0 in poll 4, but 1 agents have not ended",
    ),
    (
        "env_step_counts_the_steps_of_an_episode",
        columns(env_step=lambda step: step.env_step + 1),
        "env_step of slot 0 is 1 as its episode opens in poll 0",
    ),
    (
        "env_step_counts_the_steps_of_an_episode",
        columns(env_step=lambda step: step.env_step * 4),
        "env_step of slot 0 is 4 after 0 in poll 1",
    ),
    ("seeds_repeat", broken.GlobalDice, "a second environment with the same seed goes another way: slot 0, row 0"),
    ("seeds_repeat", broken.CountingResets, "reset(seed) of an environment that was used before goes another way"),
    ("seeds_and_slots_differ", broken.AlikeSlots, "slots 0 and 1, 0 and 2, 1 and 2 play the same episodes"),
    ("seeds_and_slots_differ", broken.IgnoresSeed, "seeds 1 and 2 give the same episodes, though without"),
    ("reset_needs_no_seed", broken.NeedsSeed, "TypeError: unsupported operand type(s) for +"),
    (
        "reset_needs_no_seed",
        broken.GoesOnAfterReset,
        "after reset(None) in the middle of episodes slots [0, 1, 2] did not start anew",
    ),
    ("wrong_actions_are_refused", broken.TakesAnything, "actions for a slot twice were taken without a word"),
    ("wrong_actions_are_refused", broken.RefusesOddly, "too few actions raised IndexError: what (broken_envs.py:"),
    (
        "wrong_actions_are_refused",
        broken.RefusesTersely,
        "too few actions are refused without the numbers: bad actions",
    ),
    ("actions_are_awaited_once", broken.TakesTwice, "the same actions sent a second time were taken without a word"),
    ("refused_actions_change_nothing", broken.StepsBeforeChecking, "after actions were refused the episodes went"),
    ("poll_times_out_and_loses_nothing", broken.NeverTimesOut, "handed over rows that were there before"),
    ("poll_times_out_and_loses_nothing", broken.EmptyInsteadOfTimeout, "handed over rows that were there before"),
    ("poll_times_out_and_loses_nothing", broken.Hangs, "did not return within 0.2 s"),
    ("poll_times_out_and_loses_nothing", broken.LosesRows, "after a timeout rows were lost: slot 0, row 1"),
    ("closes_twice", broken.ClosesOnce, "the second close() raised RuntimeError: it is gone (broken_envs.py:"),
    ("resting_slots_stand_still", broken.OnlySaysItRests, "slot 2 rests, but its row of poll 1 needs an action"),
    ("resting_slots_stand_still", broken.RestDisturbs, "after rest([2]) other slots went another way: slot 0, row 1"),
    ("states_can_be_stored", broken.ObjectState, "get_state() cannot be stored: '/rng' is a numpy.random"),
    ("states_can_be_stored", broken.ListState, "get_state() gave a list"),
    ("states_are_copies", broken.LiveState, "a state changed while the environment went on: live: [0] is"),
    (
        "states_are_copies",
        broken.AdoptsState,
        "a state changed while an environment that was restored from it went on: t: [0] is",
    ),
    (
        "states_show_waiting_rows_again",
        broken.RepeatsTransition,
        "the first poll after set_state() repeats the transition of slot 0",
    ),
    (
        "states_show_waiting_rows_again",
        broken.ForgetsWhereItWas,
        "after set_state() slot 0 is not handed over as it stood: obs/: [0] is 10.0, expected 11.0",
    ),
    ("states_show_waiting_rows_again", broken.CountsRestarts, "set_state() returned 0"),
    ("states_show_waiting_rows_again", broken.RestartsHalfWay, "slot 0 was restarted, but its row is not first"),
    ("states_go_on_exactly", broken.ForgetsSeed, "restored from a state taken in poll 1 it goes another way: slot 0"),
    ("a_state_may_be_asked_for_before_reset", broken.NoStateBeforeReset, "AttributeError"),
    ("frames_are_images", broken.FloatFrames, "render() gave float64 of shape (4, 4, 3)"),
    ("its_model_is_a_model", broken.NotAModel, "model() gave a dict"),
    ("its_model_is_where_the_environment_is", with_model(models.Ahead), "observe(from_obs(obs)) is not obs: it is off"),
    ("its_model_is_where_the_environment_is", with_model(models.OverTooSoon), "terminal() says that games are over"),
    ("its_model_is_pure", with_model(models.InPlace), "step() changes the states that it is given"),
    ("its_model_is_pure", with_model(models.DrawsElsewhere), "step() does not repeat with the same generator"),
    ("its_model_is_pure", with_model(models.PaysNobody), "rewards of shape (3,) for 3 states and 1 players"),
    ("its_model_is_pure", with_model(models.NobodyMoves), "to_play() gave [-1 -1 -1]"),
]


@pytest.mark.parametrize(
    ("rule", "env", "message"), BROKEN, ids=[f"{rule}-{i}" for i, (rule, _, _) in enumerate(BROKEN)]
)
def test_a_broken_environment_is_found_out(rule: str, env: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcore.testing.kit.env.sending.GIVEN_UP", 0.2)
    (broken,) = (each for each in ENV_RULES if each.__name__ == rule)
    report = examine("it", [broken], [EnvLab(env, polls=80)])
    assert any(message in problem.what for problem in report.problems), str(report)
    assert all(problem.fix for problem in report.problems)


def test_a_model_that_keeps_the_rules_is_fine() -> None:
    own = [rule for rule in ENV_RULES if rule.__name__.startswith("its_model_")]
    report = examine("it", own, [EnvLab(with_model(CountModel), polls=80)])
    assert len(own) == 3 and not report.problems


def test_every_rule_has_an_environment_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in ENV_RULES}


def test_all_problems_are_listed_at_once() -> None:
    env = columns(
        reward=lambda step: np.full(len(step.slot), np.nan),
        episode_over=lambda step: flags(step, True),
    )
    with pytest.raises(ConformanceError) as caught:
        check_env(env, num_envs=2)
    rules = [problem.rule for problem in caught.value.problems]
    assert rules == [
        "columns_have_their_types",
        "rewards_are_finite",
        "nothing_is_paid_before_the_first_action",
        "episode_over_is_set_where_episodes_end",
        "states_show_waiting_rows_again",
    ]
    for problem in caught.value.problems:
        assert f"{problem.rule}: {problem.what}" in str(caught.value)
        assert f"fix: {problem.fix}" in str(caught.value)


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (Count, {}),
        (Count, {"next_step": True, "truncate": True, "length": [2, 3, 5]}),
        (AliasingCount, {}),
        (broken.Dice, {}),
        (ScatteredCount, {"length": [2, 3, 5]}),
        (TwoAgentEnv, {}),
        (TwoAgentEnv, {"separate_groups": True, "lengths": (5, 8), "every": (1, 2), "start": (0, 1)}),
        (DictCountEnv, {}),
    ],
)
def test_our_own_environments_keep_all_rules(env: Any, settings: dict[str, Any]) -> None:
    check_env(env, settings)


def test_what_cannot_be_tested_is_said() -> None:
    report = check_env(Count, {"length": 1000}, polls=30)
    untested = report.untested
    assert untested["endings_have_final_observations"] == (
        "no episode ended within 30 polls; allow more (polls=), or settings that make episodes shorter"
    )
    assert untested["frames_are_images"] == "it draws nothing as it was built"
    assert "not tested: frames_are_images: it draws nothing as it was built" in str(report)


def test_what_fails_at_the_root_is_said_once() -> None:
    report = examine_env(EnvLab(broken.Raising))
    (problem,) = report.problems
    assert problem.rule == "can_be_played"
    untested = report.untested
    assert untested["rewards_are_finite"] == f"nothing to look at, because of {problem.what}"
    assert len(untested) == len(ENV_RULES) - 2


def test_an_environment_that_was_made_already_is_refused() -> None:
    with pytest.raises(EnvError, match="give the class or a callable that makes it"):
        check_env(gymnasium.make("CartPole-v1"))  # type: ignore[arg-type]
    with pytest.raises(EnvError, match="give the class or a callable that makes it"):
        check_env(Count(2))  # type: ignore[arg-type]

"""The rules for environments, and :func:`check_env`, which applies them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.envs import EnvSource
from rlcore.testing.kit.env import columns, endings, models, resting, seeds, sending, states
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.report import Report
from rlcore.testing.kit.rules import Rule, examine

ENV_RULES: Sequence[Rule[EnvLab]] = (
    columns.can_be_played,
    columns.says_what_it_is,
    columns.columns_have_one_row_each,
    columns.columns_have_their_types,
    columns.polls_have_rows,
    columns.observations_are_in_their_space,
    columns.rewards_are_finite,
    columns.observations_have_memory_of_their_own,
    endings.reset_opens_every_slot,
    endings.endings_have_final_observations,
    endings.final_observations_are_not_those_of_the_reset,
    endings.an_episode_opens_after_each_ending,
    endings.ended_agents_are_not_asked_to_act,
    endings.nothing_is_paid_before_the_first_action,
    endings.episode_over_is_set_where_episodes_end,
    endings.env_step_counts_the_steps_of_an_episode,
    seeds.seeds_repeat,
    seeds.seeds_and_slots_differ,
    seeds.reset_needs_no_seed,
    sending.wrong_actions_are_refused,
    sending.actions_are_awaited_once,
    sending.refused_actions_change_nothing,
    sending.poll_times_out_and_loses_nothing,
    sending.closes_twice,
    resting.resting_slots_stand_still,
    states.states_can_be_stored,
    states.states_are_copies,
    states.states_show_waiting_rows_again,
    states.states_go_on_exactly,
    states.a_state_may_be_asked_for_before_reset,
    states.frames_are_images,
    models.its_model_is_a_model,
    models.its_model_is_where_the_environment_is,
    models.its_model_is_pure,
)


def check_env(
    env: EnvSource,
    settings: Mapping[str, Any] | None = None,
    *,
    num_envs: int = 3,
    polls: int = 600,
    seed: int = 1,
    excused: Mapping[str, str] | None = None,
) -> Report:
    """Plays ``env`` with random actions and holds everything that it hands over to the contract of ``rlcore.env``.

    ``env`` is a name, a class or a callable, as for a ``PolicyEvaluator``; it is built several times, with ``num_envs``
    copies and ``settings``. A recording is ``polls`` long at most. ``excused`` is ``{rule: reason}``.

    Raises ``ConformanceError`` listing every problem with its fix.
    """
    return examine_env(EnvLab(env, settings, num_envs=num_envs, polls=polls, seed=seed), excused).raise_problems()


def examine_env(lab: EnvLab, excused: Mapping[str, str] | None = None) -> Report:
    """The report of all rules."""
    return examine(f"environment {lab.name}", ENV_RULES, [lab], excused)

"""The rules for policy graphs and actors, and the functions that apply them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.env import Spaces
from rlcore.envs import EnvSource
from rlcore.testing.kit.policy import acting, actor, building, learning, rho, weights
from rlcore.testing.kit.policy.cases import GraphSource, graph_labs
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.report import Report
from rlcore.testing.kit.rules import Rule, examine

POLICY_GRAPH_RULES: Sequence[Rule[GraphLab]] = (
    building.it_can_be_built,
    building.builds_repeat,
    building.specs_can_be_sent,
    building.unknown_settings_are_refused,
    building.unknown_devices_are_refused,
    building.spaces_it_cannot_handle_are_refused_by_name,
    building.it_says_what_it_needs,
    building.unknown_utilities_are_refused,
    building.no_generator_but_its_own_is_used,
    acting.actions_have_their_shapes_and_types,
    acting.actions_fit_the_environment,
    acting.actions_obey_the_mask,
    acting.extras_are_columns,
    acting.states_go_in_and_come_out,
    acting.acting_follows_the_generator,
    acting.acting_without_exploring_is_deterministic,
    acting.acting_changes_nothing,
    acting.rows_are_acted_for_apart,
    acting.log_probs_repeat,
    learning.gradients_are_those_of_the_trainable_weights,
    learning.gradients_change_nothing,
    learning.count_is_the_number_of_samples,
    learning.gradients_are_averaged_per_sample,
    learning.learning_is_gradients_then_apply,
    learning.pinned_samples_are_learnt_from_alike,
    learning.learning_repeats,
    learning.learning_moves_the_weights,
    learning.learning_leaves_the_batch_alone,
    learning.the_update_rule_is_followed,
    learning.updates_that_are_not_finite_are_skipped,
    learning.one_sample_is_enough,
    learning.statistics_are_numbers,
    weights.weights_are_named_arrays,
    weights.layouts_are_canonical,
    weights.acting_and_trainable_name_weights,
    weights.chosen_weights_are_given,
    weights.weights_go_round,
    weights.acting_weights_are_enough,
    weights.wrong_weights_are_refused,
    weights.weights_are_copied,
    weights.states_can_be_stored,
    weights.states_go_on_exactly,
    weights.states_are_copies,
    rho.postprocessing_is_pure,
    rho.postprocessing_keeps_the_rows,
    rho.pieces_are_not_mixed,
)

ACTOR_RULES: Sequence[Rule[GraphLab]] = (
    actor.it_is_an_actor,
    actor.it_acts_as_its_graph,
    actor.it_acts_as_its_graph_after_updates,
    actor.it_is_apart_from_its_graph,
    actor.it_acts_in_a_fresh_process_without_a_framework,
    actor.it_postprocesses_as_its_graph,
    actor.it_changes_nothing,
    actor.wrong_weights_are_refused,
    actor.states_go_round,
    actor.unknown_utilities_are_refused,
)


def check_policy_graph(
    graph: GraphSource,
    config: Mapping[str, Any] | None = None,
    *,
    env: EnvSource | None = None,
    env_settings: Mapping[str, Any] | None = None,
    spaces: Sequence[Spaces] | None = None,
    seed: int | None = None,
    excused: Mapping[str, str] | None = None,
) -> Report:
    """Holds ``graph`` (a name, a class, or a graph that was built) to the contract of ``rlcore.policy_graph``.

    It acts in and learns from ``env``, or an environment of each of ``spaces``, pairs of observation and action space,
    in which all is random; without either, from some common ones, as far as the graph takes them. ``config`` holds
    settings of the graph. What is not said is as ``PolicyGraph.conformance`` has it. ``excused`` is ``{rule: reason}``.

    Raises ``ConformanceError`` listing every problem with its fix.
    """
    labs = graph_labs(graph, config, env=env, env_settings=env_settings, spaces=spaces, seed=seed)
    return examine_policy_graph(labs, excused).raise_problems()


def examine_policy_graph(labs: Sequence[GraphLab], excused: Mapping[str, str] | None = None) -> Report:
    """The report of all rules in all cases."""
    return examine(f"policy graph {labs[0].graph_class.__qualname__}", POLICY_GRAPH_RULES, labs, excused)


def check_actor(
    graph: GraphSource,
    config: Mapping[str, Any] | None = None,
    *,
    env: EnvSource | None = None,
    env_settings: Mapping[str, Any] | None = None,
    spaces: Sequence[Spaces] | None = None,
    seed: int | None = None,
    excused: Mapping[str, str] | None = None,
) -> Report:
    """Holds what ``graph.actor()`` gives to ``rlcore.policy_graph.Actor``: to act like its graph, without a framework.

    Arguments are those of :func:`check_policy_graph`. Raises ``ConformanceError`` listing every problem with its fix.
    """
    labs = graph_labs(graph, config, env=env, env_settings=env_settings, spaces=spaces, seed=seed)
    return examine_actor(labs, excused).raise_problems()


def examine_actor(labs: Sequence[GraphLab], excused: Mapping[str, str] | None = None) -> Report:
    """The report of all rules in all cases."""
    return examine(f"actor of {labs[0].graph_class.__qualname__}", ACTOR_RULES, labs, excused)

"""Each rule for policy graphs against graphs that break it, and what it says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from support.broken_graphs import acting, building, learning, rho, states, weights

from rlcore.batch import SampleBatch
from rlcore.errors import SpaceError, UnknownPluginError
from rlcore.policy_graph import ROW, Progress
from rlcore.testing.constant import TableValue
from rlcore.testing.kit.policy import POLICY_GRAPH_RULES, check_policy_graph, examine_policy_graph
from rlcore.testing.kit.policy.cases import drawn, graph_labs
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.report import ConformanceError
from rlcore.testing.kit.rules import examine
from rlcore.testing.linear import LinearPG

OBS = Box(-2.0, 2.0, (5,), np.float32)
DISCRETE, CONTINUOUS = Discrete(3, start=1), Box(-1.0, 1.0, (2,), np.float32)

MASKED = Dict({"place": OBS, "action_mask": MultiBinary(3)})

#: ``(rule, graph, what the rule says)``; the graph acts in a Discrete space, or a Box where it is in this set.
BOXES = {acting.NaNActions}
RECURRENT = {acting.StateOfAnotherShape, acting.OneStateForAll, acting.StatesDiffer, acting.SharedStates}
RECURRENT |= {learning.PieceOfRows}
BROKEN: list[tuple[str, Any, str]] = [
    ("it_can_be_built", building.NotBuilt, "RuntimeError: not today (building.py:"),
    ("builds_repeat", building.RandomStart, "two graphs of one spec differ: weights/policy.out.bias: [0] is"),
    ("specs_can_be_sent", building.StaysHere, "its spec cannot be pickled: TypeError: stays here"),
    ("specs_can_be_sent", building.RandomStart, "a graph of a spec that was sent differs: weights/policy.out.bias"),
    ("unknown_settings_are_refused", building.TakesAnySetting, "Config takes a setting 'no_such_setting'"),
    (
        "unknown_settings_are_refused",
        building.NoGraphConfig,
        "Config is <class 'support.broken_graphs.building.PlainConfig'>",
    ),
    ("unknown_devices_are_refused", building.AnyDevice, "the device 'nowhere:7' was taken without a word"),
    (
        "spaces_it_cannot_handle_are_refused_by_name",
        building.AnySpace,
        "a Text space to act in was taken without a word",
    ),
    ("spaces_it_cannot_handle_are_refused_by_name", building.AnySpace, "a Graph space to see was taken without a word"),
    (
        "spaces_it_cannot_handle_are_refused_by_name",
        building.NamelessRefusal,
        "a Text space to act in raised SpaceError: unsupported",
    ),
    ("it_says_what_it_needs", building.FloatLookahead, "lookahead is 1.5"),
    ("it_says_what_it_needs", building.StringUnit, "minibatch_unit is 'row'"),
    ("it_says_what_it_needs", building.ListsUtilities, "utilities() gave ['update_target']"),
    ("unknown_utilities_are_refused", building.TakesAnyCall, "call('no_such_utility') was taken without a word"),
    ("no_generator_but_its_own_is_used", building.GlobalDraws, "numpy's global generator was used"),
    (
        "actions_have_their_shapes_and_types",
        acting.ColumnActions,
        "actions has shape (1, 1), expected (1,) (1 observations, exploring)",
    ),
    ("actions_have_their_shapes_and_types", acting.SmallActions, "actions is int8, expected int64"),
    (
        "actions_have_their_shapes_and_types",
        acting.NamedActions,
        "actions have the leaves ['move'], the action space ['']",
    ),
    ("actions_have_their_shapes_and_types", acting.TooManyActions, "actions has numbers outside of 0 to n - 1"),
    ("actions_have_their_shapes_and_types", acting.NaNActions, "actions is not finite"),
    ("actions_fit_the_environment", acting.TooManyActions, "the environment would get 4, which is not in Discrete(3"),
    ("actions_obey_the_mask", acting.Unmasked, "exploring it took action "),
    ("extras_are_columns", acting.ScalarExtras, "extras['temperature'] is a float for 4 observations"),
    ("extras_are_columns", acting.NaNExtras, "extras['energy'] is not finite"),
    ("extras_are_columns", acting.DoubleLogp, "extras['action_logp'] is float64 (4,), expected float32 (4,)"),
    (
        "states_go_in_and_come_out",
        acting.StateOfAnotherShape,
        "act() took a state of (float32 (4, 1)) and gave one of (float32 (4,))",
    ),
    ("states_go_in_and_come_out", acting.OneStateForAll, "initial_state(4) is (float32 (1, 1))"),
    ("states_go_in_and_come_out", acting.StatesDiffer, "the rows of initial_state(4) differ"),
    ("states_go_in_and_come_out", acting.SharedStates, "two calls of initial_state() share memory"),
    ("acting_follows_the_generator", acting.OwnDraws, "acting twice with equal generators differs: actions: ["),
    (
        "acting_without_exploring_is_deterministic",
        acting.AlwaysExplores,
        "without exploring the actions depend on the generator: [",
    ),
    ("acting_changes_nothing", acting.ScalesItsArgument, "act() changed its argument obs: [0, 0] is"),
    ("acting_changes_nothing", acting.CountsActs, "act() changed the graph: acts: "),
    ("acting_changes_nothing", acting.RemembersActs, "the same call of act() gave something else: actions: [0] is"),
    (
        "rows_are_acted_for_apart",
        acting.NormalisesRows,
        "row 0 alone is acted for in another way than among 6: extras/rank: [0] is 0.0",
    ),
    ("log_probs_repeat", acting.WrongLogp, "the ratio of row"),
    ("log_probs_repeat", acting.FewLogProbs, "log_probs() gave (72, 1) for 72 rows"),
    (
        "gradients_are_those_of_the_trainable_weights",
        learning.NoBias,
        "gradients() does not give what is trainable: it lacks policy.out.bias",
    ),
    (
        "gradients_are_those_of_the_trainable_weights",
        learning.FlatGradients,
        "the gradient of policy.out.weight is float32 (15,)",
    ),
    (
        "gradients_are_those_of_the_trainable_weights",
        learning.NaNGradients,
        "the gradient of policy.out.bias is not fin",
    ),
    ("gradients_change_nothing", learning.GradientsCount, "gradients() changed the graph: env_steps: 1, expected 0"),
    ("gradients_change_nothing", learning.GradientsWrite, "gradients() changed the batch: rows/advantages: [0] is 5.0"),
    (
        "gradients_change_nothing",
        learning.GradientsDrift,
        "gradients() of the same batch gave something else: policy.out.bias: [0] is",
    ),
    ("count_is_the_number_of_samples", learning.CountsBatch, "count is 72 for 36 units with 36 rows"),
    ("count_is_the_number_of_samples", learning.PieceOfRows, "count is 7 for 7 units with "),
    (
        "gradients_are_averaged_per_sample",
        learning.Sums,
        "the mean of the parts' gradients, weighted by count, is not the whole's: policy.out.",
    ),
    (
        "learning_is_gradients_then_apply",
        learning.LearnsTwice,
        "update 1 by learn() and by gradients() and apply_gradients() differ: policy.out.",
    ),
    (
        "pinned_samples_are_learnt_from_alike",
        learning.PinsHalf,
        "samples that were pinned are learnt from in another way: policy.out.",
    ),
    ("pinned_samples_are_learnt_from_alike", learning.PinsOneRow, "pin() of 72 rows says that they are 1"),
    ("learning_repeats", learning.LearnsAtRandom, "the same updates gave something else: weights/policy.out.bias"),
    ("learning_moves_the_weights", learning.LearnsNothing, "three updates changed no trainable weight"),
    ("learning_leaves_the_batch_alone", learning.WritesBatch, "ValueError: output array is read-only"),
    (
        "the_update_rule_is_followed",
        learning.OtherRule,
        "after update 1 apply_gradients() and update_rule() are apart: policy.out.",
    ),
    (
        "updates_that_are_not_finite_are_skipped",
        learning.AppliesNaN,
        "an update from rewards that are NaN was not skipped, and made weights NaN",
    ),
    (
        "updates_that_are_not_finite_are_skipped",
        learning.SkipsHalf,
        "a skipped update changed the graph: env_steps: 1, expected 0",
    ),
    ("updates_that_are_not_finite_are_skipped", learning.StaysSkipping, "after a skipped update good ones are skipped"),
    ("one_sample_is_enough", learning.NeedsTwo, "a minibatch of one unit was skipped"),
    ("statistics_are_numbers", learning.ArrayStats, "stats of gradients() are no finite floats: loss"),
    ("statistics_are_numbers", learning.ShortErrors, "td_error of gradients() has shape (37,) for 36 rows"),
    ("weights_are_named_arrays", weights.CamelNames, "a weight is called 'Policy/Kernel:0'"),
    ("weights_are_named_arrays", weights.ListWeights, "weight 'policy.out.bias' is list"),
    ("weights_are_named_arrays", weights.NaNWeights, "weight 'policy.out.bias' is not finite"),
    ("layouts_are_canonical", weights.Transposed, "'policy.out.weight' has shape (3, 5), its bias (3,)"),
    ("acting_and_trainable_name_weights", weights.ListsActing, "acting is ['policy.out.bias', 'policy.out.weight']"),
    (
        "acting_and_trainable_name_weights",
        weights.NamesMore,
        "trainable names policy.extra, which get_weights() lacks",
    ),
    ("chosen_weights_are_given", weights.GivesAll, "get_weights of two names: it has policy.out.weight beside"),
    ("weights_go_round", weights.ForgetsBias, "weights that were set come back as others: policy.out.bias: [0] is 0.0"),
    ("weights_go_round", weights.HidesBias, "with the same weights two graphs act differently: extras/noise"),
    ("acting_weights_are_enough", weights.ActsWithMore, "with the acting weights of another a graph acts differently"),
    (
        "acting_weights_are_enough",
        weights.ClearsOthers,
        "set_weights() changed a weight that was not given: policy.out.bias",
    ),
    ("wrong_weights_are_refused", weights.TakesUnknown, "an unknown name was taken without a word"),
    ("wrong_weights_are_refused", weights.RefusesOddly, "an unknown name raised KeyError: 'no.such_weight'"),
    (
        "wrong_weights_are_refused",
        weights.RefusesVaguely,
        "another shape is refused without saying which: wrong weights",
    ),
    (
        "wrong_weights_are_refused",
        weights.RefusesHalfWay,
        "weights with another shape were refused, and some were set: policy.out.bias",
    ),
    ("weights_are_copied", weights.LiveWeights, "what get_weights() gave changed with an update: policy.out."),
    ("weights_are_copied", weights.AdoptsWeights, "the graph changed with arrays that it was given: policy.out."),
    ("states_can_be_stored", states.ObjectState, "get_state() cannot be stored: '/rule' is a rlcore.optim.Adam"),
    ("states_can_be_stored", states.FlatState, "get_state() has no 'weights'"),
    (
        "states_can_be_stored",
        states.OldWeightsInState,
        "the weights in get_state() are not those of get_weights(): policy.out.",
    ),
    ("states_go_on_exactly", states.ForgetsMoments, "restored after 3 updates it goes another way: weights/policy.out"),
    ("states_go_on_exactly", weights.HidesBias, "restored after 0 updates it goes another way: extras/noise"),
    ("states_are_copies", states.LiveState, "a state changed while the graph learnt on: weights/policy.out."),
    (
        "states_are_copies",
        states.AdoptsState,
        "a state changed while a graph restored from it learnt on: counts: [0] is",
    ),
    ("postprocessing_is_pure", rho.ClipsRewards, "postprocess() changed its batch: rows/rewards: [0] is"),
    ("postprocessing_is_pure", rho.LearnsInRho, "postprocess() changed the graph: env_steps: 1, expected 0"),
    ("postprocessing_is_pure", rho.CountsBatches, "the same batch came out differently the second time: rows/adv"),
    ("postprocessing_keeps_the_rows", rho.GivesColumns, "postprocess() gave a dict"),
    ("postprocessing_keeps_the_rows", rho.DropsShortPieces, "72 rows in 14 pieces came out as"),
    ("postprocessing_keeps_the_rows", rho.DropsColumns, "postprocess() lost the columns t"),
    ("pieces_are_not_mixed", rho.MixesPieces, "piece 0 comes out differently alone: advantages: [0] is"),
    ("pieces_are_not_mixed", rho.NormalisesBatch, "piece 0 comes out differently alone: advantages: [0] is"),
]


def lab_of(graph: Any) -> GraphLab:
    continuous = graph in BOXES or graph is weights.GivesAll
    config = {"recurrent": True} if graph in RECURRENT else {}
    if graph is acting.Unmasked:
        return GraphLab(graph, drawn(MASKED, DISCRETE))
    return GraphLab(graph, drawn(OBS, CONTINUOUS if continuous else DISCRETE), config)


@pytest.mark.parametrize(
    ("rule", "graph", "message"), BROKEN, ids=[f"{rule}-{graph.__name__}" for rule, graph, _ in BROKEN]
)
def test_a_broken_graph_is_found_out(rule: str, graph: Any, message: str) -> None:
    (broken_rule,) = (each for each in POLICY_GRAPH_RULES if each.__name__ == rule)
    report = examine("it", [broken_rule], [lab_of(graph)])
    assert any(message in problem.what for problem in report.problems), str(report)
    assert all(problem.fix for problem in report.problems)


def test_every_rule_has_a_graph_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in POLICY_GRAPH_RULES}


def test_a_schedule_that_begins_anew_is_found_out() -> None:
    schedule = {"learning_rate": [[0, 1e-3], [5000, 1e-2]]}
    report = examine_policy_graph([GraphLab(states.ForgetsSteps, drawn(OBS, DISCRETE), schedule)])
    assert [problem.rule for problem in report.problems] == ["states_go_on_exactly"]
    assert "restored after 3 updates it goes another way" in report.problems[0].what


def test_exploring_may_follow_a_schedule() -> None:
    class GreedyLater(LinearPG):
        env_steps = 0

        def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> Any:
            return super().act(obs, state, rows=rows, explore=explore and self.env_steps < 2500, rng=rng)

        def on_progress(self, progress: Progress) -> None:
            super().on_progress(progress)
            self.env_steps = progress.env_steps

    rules = [rule for rule in POLICY_GRAPH_RULES if rule.__name__ in ("weights_go_round", "acting_weights_are_enough")]
    report = examine("it", rules, [GraphLab(GreedyLater, drawn(OBS, DISCRETE))])
    assert report.ok and not report.untested, str(report)


def test_states_of_acting_may_be_dropped_where_rows_are_learnt_from() -> None:
    class DropsStates(TableValue):
        def postprocess(self, batch: SampleBatch, other_agents: Any = None) -> SampleBatch:
            done = super().postprocess(batch, other_agents)
            return SampleBatch(done.rows, {name: cut for name, cut in done.cuts.items() if "state" not in name})

    class LearnsFromRows(DropsStates):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self.minibatch_unit = ROW

    (rule,) = (rule for rule in POLICY_GRAPH_RULES if rule.__name__ == "postprocessing_keeps_the_rows")
    good, bad = (
        examine("it", [rule], [GraphLab(graph, drawn(OBS, DISCRETE), {"recurrent": True})])
        for graph in (LearnsFromRows, DropsStates)
    )
    assert good.ok, str(good)
    assert "lost the columns last_state.0, state_in.0" in bad.problems[0].what


def test_all_problems_are_listed_at_once_and_once_for_all_cases() -> None:
    class Sloppy(acting.WrongLogp, rho.DropsColumns, weights.ListsActing):
        pass

    with pytest.raises(ConformanceError) as caught:
        check_policy_graph(Sloppy, excused={"log_probs_repeat": "a test of the kit", "builds_repeat": "also"})
    problems = caught.value.problems
    assert [(problem.rule, problem.case) for problem in problems] == [
        (
            "acting_and_trainable_name_weights",
            "Box(5) to Discrete(3); Dict(action_mask, place) to Discrete(4); Discrete(6) to MultiDiscrete(2, 2)",
        ),
        (
            "acting_and_trainable_name_weights",
            "Box(5) to Box(2); Dict(kind, place) to Tuple(Discrete(3), Box(2))",
        ),
        ("postprocessing_keeps_the_rows", ""),
        ("builds_repeat", ""),
    ]
    assert problems[-1].what == "is excused ('also'), but holds"
    assert "excused: log_probs_repeat: a test of the kit" in str(caught.value)


@pytest.mark.parametrize("config", [{}, {"entropy_coeff": 0.1, "normalize_advantages": False, "max_grad_norm": 0.01}])
def test_numpy_pg_keeps_all_rules(config: dict[str, Any]) -> None:
    report = check_policy_graph("numpy.pg", config)
    assert report.untested == {}


@pytest.mark.parametrize("config", [{}, {"recurrent": True, "learning_rate": 0.01}])
def test_table_value_keeps_all_rules(config: dict[str, Any]) -> None:
    check_policy_graph(TableValue, config)


def test_a_graph_is_checked_in_the_environment_that_is_named() -> None:
    assert check_policy_graph(LinearPG, env="CartPole-v1").ok


def test_a_graph_that_was_built_stands_for_its_class_config_and_spaces() -> None:
    config = LinearPG.Config(gamma=0.5)
    graph = LinearPG(OBS, CONTINUOUS, config, rng=np.random.default_rng(0))
    (lab,) = graph_labs(graph)
    assert (lab.graph_class, lab.case, lab.spec().config) == (LinearPG, "Box(5) to Box(2)", config)
    assert check_policy_graph(graph).ok


def test_spaces_that_it_refuses_are_left_out_unless_they_were_asked_for() -> None:
    assert [lab.case for lab in graph_labs(acting.OnlyPlain)] == ["Box(5) to Discrete(3)", "Box(5) to Box(2)"]
    with pytest.raises(ConformanceError, match="it_can_be_built") as caught:
        check_policy_graph(LinearPG, spaces=[(OBS, Discrete(2)), (OBS, Box(-1, 1, (0,)))])
    assert caught.value.problems[0].case == "Box(5) to Box(0)"
    assert SpaceError.__name__ in caught.value.problems[0].what


def test_an_unknown_graph_is_no_finding_but_an_error() -> None:
    with pytest.raises(UnknownPluginError, match=r"unknown policy graph 'numpy.gp'; did you mean"):
        check_policy_graph("numpy.gp")

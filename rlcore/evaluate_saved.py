"""Evaluating what a checkpoint holds: whole episodes with its policies, filters and memory, and no learning."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from rlcore.checkpoint import load_tree
from rlcore.config import RunConfig, parse_config
from rlcore.envs import EnvSource
from rlcore.errors import CheckpointError
from rlcore.evaluation import Evaluation, EvaluationResult
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Actor, PolicyGraph
from rlcore.policy_mapping import load_policy_of
from rlcore.replay_memory import REPLAY
from rlcore.results import checkpoint_folder
from rlcore.sampling.collect import Episodes
from rlcore.sampling.filters import FILTERS
from rlcore.saved_policies import SavedPolicy, policies_in
from rlcore.tree_search.mistakes import mistakes_of
from rlcore.tree_search.searching import search_of
from rlcore.trust import check_objects, check_trust, env_names
from rlcore.video import FilmSource


def evaluate_saved(
    path: Path | str,
    episodes: int | None = None,
    *,
    framework: str | None = None,
    video: Path | str | None = None,
    trust: bool = False,
) -> EvaluationResult:
    """Exactly ``episodes`` episodes (the number in the run's config) with deterministic actions.

    ``path`` is a checkpoint, or a run folder, whose last checkpoint is taken. The policies act without the framework
    that they were trained in where they can; ``framework`` asks for graphs of that one. ``video`` is a folder for a
    video of each episode. The same call plays the same episodes, those that the run itself would play in its next
    evaluation.

    Of a policy that searches, in a game that is solved, the result's figures have ``mistakes`` and ``network_mistakes``
    (:class:`rlcore.tree_search.mistakes.Mistakes`).

    Raises ``CheckpointError`` where the checkpoint cannot be read, or names code to import and is not trusted, and
    ``PluginError`` where the environment or a graph that is needed is not installed.
    """
    folder = checkpoint_folder(path)
    tree, manifest = load_tree(folder, leave_out=(REPLAY,))
    saved = policies_in(folder, tree, manifest)
    config, number = _run_of(folder, tree, manifest)
    env: EnvSource = config.env
    check_objects(folder, config.to_tree())
    check_trust(f"checkpoint {folder}", env_names(config), trust)
    built = {name: one.build(framework, trust) for name, one in saved.items()}

    def player(envs: int, collect: Episodes, film: Path | None) -> PolicyEvaluator:
        return PolicyEvaluator(
            env=FilmSource(env, film, collect) if film is not None else env,
            env_settings=config.env_settings,
            num_envs=envs,
            collect=collect,
            policies=built,
            policy_of=load_policy_of(config.policy_of),
            rng=0,  # each evaluation sets its own
            explore=False,
            observation_filter=FILTERS[config.filter],
        )

    evaluation = Evaluation(player, config.seed)
    try:
        result = evaluation.run(
            number,
            episodes if episodes is not None else config.evaluation.episodes,
            {name: one.weights for name, one in saved.items()},
            int(manifest["weights_version"]),
            {name: one.filter_states for name, one in saved.items()},
            Path(video) if video is not None else None,
        )
    finally:
        evaluation.close()
    return replace(result, figures=_figures(built, saved, trust))


def _figures(
    built: Mapping[str, Actor | PolicyGraph], saved: Mapping[str, SavedPolicy], trust: bool
) -> dict[str, float]:
    """How often a policy that searches makes mistakes, where its game is solved; by policy, where there are several."""
    figures: dict[str, float] = {}
    for name, policy in built.items():
        run = saved[name].run
        search = search_of(policy)
        if run is None or search is None or (rules := run.rules(trust)) is None:
            continue
        mistakes = mistakes_of(rules, functools.partial(policy.call, "network"), search)
        if mistakes is not None:
            prefix = f"{name}." if len(built) > 1 else ""
            figures |= {f"{prefix}{key}": value for key, value in asdict(mistakes).items()}
    return figures


def _run_of(folder: Path, tree: object, manifest: object) -> tuple[RunConfig, int]:
    """The config of the run and how many evaluations there have been."""
    try:
        return parse_config(manifest["config"]), int(tree["counters"]["evaluations"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"checkpoint {folder} is of no run: {error!r}") from error

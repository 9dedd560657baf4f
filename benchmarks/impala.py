"""IMPALA on Ray with two evaluators: environment steps by second, and how long the learner waits for data.

    python benchmarks/impala.py

impala's recipe is as it comes; options change it. Its learner is blocked while it has nothing to do, and what
fetching samples from Ray takes is part of that. Beside it runs RLlib's PPO with two runners, where `pip install
"ray[rllib]"` has been done, by the recipe that the other benchmarks have (4 epochs over 8 environments x 128 steps,
minibatches of 256, two networks of 64 x 64). Contestants take turns, each in a fresh process with a Ray of its own;
what starting takes is not counted. Given are medians by the clock, which other work on the machine disturbs, and the
ratio of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from recipe import ENV_ID, HIDDEN, RECIPE

RUNNERS = 2
#: Seconds before anything is counted: processes start, and queues fill.
WARMING_S = 5.0


def impala(seconds: float, settings: dict[str, Any]) -> dict[str, float]:
    from rlcore import Trainer

    config = {
        "algorithm": "impala",
        "framework": "torch",
        "env": ENV_ID,
        "model": {"hidden": list(HIDDEN), "activation": "tanh"},
        "evaluators": {"count": RUNNERS, **{key: settings[key] for key in ("envs", "fragment") if key in settings}},
        "optimizer": {"name": "async_samples", **{key: settings[key] for key in ("epochs",) if key in settings}},
        "runtime": {"name": "ray", "cpus": RUNNERS},
        "seed": 1,
    }
    with Trainer(config) as trainer:
        row = warm(trainer.step)
        begun, started = row["env_steps"], time.perf_counter()
        learnt = waited = 0.0
        staleness = []
        while (spent := time.perf_counter() - started) < seconds:
            row = trainer.step()
            learnt, waited = learnt + row["learn_s"], waited + row["learner_wait_s"]
            staleness.append(row["staleness_mean"])
    return {
        "steps_per_s": (row["env_steps"] - begun) / spent,
        "blocked": waited / (learnt + waited),
        "staleness": statistics.mean(staleness),
        "return": row["episode_return_mean"],
    }


def rllib(seconds: float, settings: dict[str, Any]) -> dict[str, float]:
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    ray.init(num_cpus=RUNNERS + 1, include_dashboard=False, log_to_driver=False)
    config = PPOConfig().environment(ENV_ID).debugging(seed=1, log_level="ERROR")
    config = config.env_runners(
        num_env_runners=RUNNERS,
        num_envs_per_env_runner=RECIPE.num_envs // RUNNERS,
        rollout_fragment_length=RECIPE.horizon,
    )
    config = config.training(
        lr=RECIPE.learning_rate,
        gamma=RECIPE.gamma,
        lambda_=RECIPE.lambda_,
        clip_param=RECIPE.clip,
        entropy_coeff=RECIPE.entropy,
        vf_loss_coeff=RECIPE.value,
        use_kl_loss=False,
        grad_clip=RECIPE.max_grad_norm,
        num_epochs=RECIPE.epochs,
        minibatch_size=RECIPE.minibatch,
        train_batch_size_per_learner=RECIPE.num_envs * RECIPE.horizon,
    )
    model = DefaultModelConfig(fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=False)
    algorithm = config.rl_module(model_config=model).build_algo()
    begun = warm(algorithm.train)["num_env_steps_sampled_lifetime"]
    started = time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        result = algorithm.train()
    algorithm.stop()
    ray.shutdown()
    return {"steps_per_s": (result["num_env_steps_sampled_lifetime"] - begun) / spent}


CONTESTANTS = {"impala": impala, "rllib": rllib}


def warm(step: Any) -> Any:
    started = time.perf_counter()
    while True:
        result = step()
        if time.perf_counter() - started >= WARMING_S:
            return result


def in_turns(names: list[str], turns: int, options: list[str]) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(turns):
        for name in names:
            command = [sys.executable, __file__, "--contestant", name, *options]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"  {name:<8}{found[name][-1]}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--envs", type=int, help="environments of an evaluator (default: the recipe's)")
    parser.add_argument("--fragment", type=int, help="steps of each in a sample (default: the recipe's)")
    parser.add_argument("--epochs", type=int, help="over each batch (default: the recipe's)")
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    given = {"envs": options.envs, "fragment": options.fragment, "epochs": options.epochs}
    settings = {name: value for name, value in given.items() if value is not None}
    if options.contestant:
        print(json.dumps(CONTESTANTS[options.contestant](options.seconds, settings)))
        return
    names = ["impala"]
    if importlib.util.find_spec("tree") and importlib.util.find_spec("ray.rllib"):
        names.append("rllib")
    else:
        print('RLlib is left out: pip install "ray[rllib]"')
    changed = [f"--{name}={value}" for name, value in settings.items()]
    found = in_turns(names, options.turns, [f"--seconds={options.seconds}", *changed])

    def median(name: str, key: str) -> float:
        return statistics.median(one[key] for one in found[name])

    ours = median("impala", "steps_per_s")
    print(f"impala        {ours:10,.0f} environment steps/s; mean lag {median('impala', 'staleness'):.1f} versions")
    print(f"  the learner is blocked on data {median('impala', 'blocked'):.0%} of its time")
    if "rllib" in names:
        theirs = median("rllib", "steps_per_s")
        print(f"RLlib's PPO   {theirs:10,.0f} environment steps/s; impala has {ours / theirs:.1f} times as many")


if __name__ == "__main__":
    main()

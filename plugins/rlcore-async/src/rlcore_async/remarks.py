"""What a user should know of settings that can be had and are likely not what was meant."""

from __future__ import annotations

from rlcore.policy_graph import Remark
from rlcore.policy_optimizer import Prospect
from rlcore_async.gradients_config import ShardedPSConfig
from rlcore_async.samples_config import AsyncSamplesConfig


def remarks_on_samples(prospect: Prospect) -> list[Remark]:
    """Nothing is learnt before there is a batch."""
    config, env_steps = prospect.config, prospect.stop.get("env_steps")
    assert isinstance(config, AsyncSamplesConfig)
    if env_steps is None or config.batch_size <= env_steps:
        return []
    text = (
        f"optimizer.batch_size is {config.batch_size} environment steps and the run stops after {env_steps:g} "
        "(stop.env_steps): there will be no update"
    )
    return [Remark(text, warns=True)]


def remarks_on_shards(prospect: Prospect) -> list[Remark]:
    """Shards are to have something to do, and a CPU to do it on."""
    config, runtime = prospect.config, prospect.runtime
    assert isinstance(config, ShardedPSConfig)
    graphs = map(prospect.local.graph, prospect.trains)
    weights = sum(own.size for graph in graphs for own in graph.get_weights(graph.trainable).values())
    cpus = runtime.capacity().cpus if runtime.isolates else None
    remarks = []
    if config.shards > weights:
        text = f"optimizer.shards is {config.shards} for {weights} weights: some have nothing to do"
        remarks.append(Remark(text, warns=True))
    if cpus is not None and config.shards > cpus:
        text = f"optimizer.shards is {config.shards}, each a process, and there are {cpus:g} CPUs: they will take turns"
        remarks.append(Remark(text, warns=True))
    return remarks

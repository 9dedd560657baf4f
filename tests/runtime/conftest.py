"""Every test of the contract runs on each runtime. Those on Ray share one local Ray, in one process of pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.workers import Counter

from rlcore.runtime.base import Handle, Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimRuntime

RAY = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="session")
def local_ray() -> Iterator[str]:
    """The address of a Ray with two CPUs that lives as long as the tests."""
    import ray

    from rlcore.runtime.ray import RayConfig, RayRuntime

    runtime = RayRuntime(RayConfig(cpus=2))
    yield ray.get_runtime_context().gcs_address
    runtime.close()
    assert not ray.is_initialized()


@pytest.fixture
def ray_runtime(local_ray: str) -> Iterator[Runtime]:
    from rlcore.runtime.ray import RayRuntime

    runtime = RayRuntime()
    yield runtime
    runtime.close()


@pytest.fixture(scope="module", params=["inline", "sim", pytest.param("ray", marks=RAY)])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Each runtime in turn."""
    if request.param == "inline":
        each: Runtime = InlineRuntime()
    elif request.param == "sim":
        each = SimRuntime()
    else:
        request.getfixturevalue("local_ray")
        from rlcore.runtime.ray import RayRuntime

        each = RayRuntime()
    yield each
    each.close()


@pytest.fixture(scope="module")
def shared(runtime: Runtime) -> list[Handle]:
    """Two workers for all tests that leave them alive: starting one takes a process half a second."""
    return [runtime.spawn(Counter) for _ in range(2)]


@pytest.fixture
def workers(runtime: Runtime, shared: list[Handle]) -> list[Handle]:
    """The two as good as new."""
    runtime.get([worker.submit("reset") for worker in shared])
    return shared


@pytest.fixture
def worker(workers: list[Handle]) -> Handle:
    """One of them."""
    return workers[0]

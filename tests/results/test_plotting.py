"""Learning curves: which runs belong together, what is drawn, and what is said where nothing can be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.errors import UserError
from rlcore.plotting import labels, plot_runs, read_curves
from rlcore.results import RunFolder


def make_run(path: Path, points: list[tuple[int, float | None]], config: str = "", seed: int = 0) -> Path:
    run = RunFolder.create(path, f"algorithm: ppo\nenv: CartPole-v1\nseed: {seed}\n{config}")
    for iteration, (steps, mean) in enumerate(points, start=1):
        evaluation = 500.0 if iteration == 2 else None
        run.append(
            {
                "iteration": iteration,
                "env_steps": steps,
                "episode_return_mean": mean,
                "evaluation_return_mean": evaluation,
            }
        )
    return path


def test_runs_of_other_seeds_are_one_curve(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", [(0, 0.0), (100, 100.0), (200, 200.0)], seed=1)
    other = make_run(tmp_path / "b", [(50, 100.0), (100, 150.0), (400, 450.0)], "stop: {env_steps: 400}\n", seed=2)
    third = make_run(tmp_path / "c", [(100, 20.0)], "policy: {learning_rate: 0.1}\nfilter: mean_std\n", seed=3)
    first, second = read_curves([one, other, third])
    assert (len(first.training), len(second.training)) == (2, 1)
    steps, mean, spread = first.mean_and_spread()
    assert (steps[0], steps[-1]) == (50.0, 200.0)
    assert (mean[0], mean[-1]) == (75.0, 225.0)  # (50 + 100) / 2 and (200 + 250) / 2
    assert np.allclose(spread, 25.0)
    assert labels([first]) == ["ppo CartPole-v1"]
    assert labels([first, second]) == [
        "ppo CartPole-v1, policy.learning_rate=None, filter=None",
        "ppo CartPole-v1, policy.learning_rate=0.1, filter=mean_std",
    ]


def test_rows_before_the_first_episode_are_no_points(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(100, None), (200, 21.0), (300, 30.0)], "stop: {episode_return_mean: 475}\n")
    (curve,) = read_curves([run])
    assert [array.tolist() for array in curve.training[0]] == [[200.0, 300.0], [21.0, 30.0]]
    assert [array.tolist() for array in curve.evaluation[0]] == [[200.0], [500.0]]
    assert curve.target == 475


@pytest.mark.parametrize("name", ["curve.png", "deep/er/curve"])
def test_the_picture_is_written(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    runs = [make_run(tmp_path / str(i), [(i, 1.0), (100 + i, 50.0 * i)], seed=i) for i in range(3)]
    runs.append(make_run(tmp_path / "x", [(1, 2.0)], "stop: {episode_return_mean: 475}\nfilter: mean_std\n"))
    runs.append(make_run(tmp_path / "y", [(3, 2.0)], "filter: mean_std\n"))
    written = plot_runs(runs, tmp_path / name)
    assert written.suffix == ".png"
    assert written.read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules or sys.modules["matplotlib.pyplot"].get_fignums() == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path, "there is no run folder at "),
        (lambda path: make_run(path, []), ": no episode has finished yet"),
        (lambda path: make_run(path, [(100, None)]), ": no episode has finished yet"),
        (lambda path: make_run(path, [(100, 1.0)], "a: [\n"), "config.yaml is no YAML"),
    ],
)
def test_nothing_to_draw(tmp_path: Path, make: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        plot_runs([make(tmp_path / "run")], tmp_path / "curve.png")
    assert said in str(caught.value)
    assert not (tmp_path / "curve.png").exists()


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run = make_run(tmp_path / "run", [(100, 1.0)])
    with pytest.raises(UserError, match=r"drawing needs matplotlib.*: pip install 'rlcore\[plot\]'$") as caught:
        plot_runs([run], tmp_path / "curve.png")
    assert "\n" not in str(caught.value)


def test_an_unknown_kind_of_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = make_run(tmp_path / "run", [(100, 1.0)])
    with pytest.raises(UserError, match="cannot write the picture"):
        plot_runs([run], tmp_path / "curve.docx")

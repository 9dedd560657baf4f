"""Learning curves: which runs belong together, what is drawn of them, and what is said where nothing can be."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rlcore import cli
from rlcore.errors import UserError
from rlcore.plotting import labels, plot_runs, read_curves
from rlcore.plotting.curves import Line, line_of, spread_of
from rlcore.plotting.page import page, thinned, ticks
from rlcore.results import RunFolder


def make_run(path: Path, points: list[tuple[int, float | None]], config: str = "", seed: int = 0) -> Path:
    run = RunFolder.create(path, f"algorithm: ppo\nenv: CartPole-v1\nseed: {seed}\n{config}")
    for iteration, (steps, mean) in enumerate(points, start=1):
        evaluation = 500.0 if iteration == 2 else None
        run.append(
            {
                "iteration": iteration,
                "env_steps": steps,
                "wall_s": 0.5 * iteration,
                "episode_return_mean": mean,
                "evaluation_return_mean": evaluation,
            }
        )
    return path


def line(*points: tuple[float, float]) -> Line:
    x, y = np.array(points, np.float64).T
    return x, y


def as_lists(found: Line) -> list[list[float]]:
    return [array.tolist() for array in found]


def test_the_middle_and_the_quartiles_of_several_lines() -> None:
    lines = [line((0, 0), (10, 10)), line((0, 4), (10, 4)), line((2, 8), (12, 8)), line((0, 2), (20, 22))]
    found = spread_of(lines, points=3)
    assert found is not None
    # At 2, 6 and 10 the lines are at (2, 4, 8, 4), (6, 4, 8, 8) and (10, 4, 8, 12).
    assert found.x.tolist() == [2.0, 6.0, 10.0]
    assert found.median.tolist() == [4.0, 7.0, 9.0]
    assert found.lower.tolist() == [3.5, 5.5, 7.0]
    assert found.upper.tolist() == [5.0, 8.0, 10.5]


def test_there_is_no_middle_of_one_line_nor_of_lines_that_never_meet() -> None:
    assert spread_of([line((0, 0), (10, 10))]) is None
    assert spread_of([line((0, 0), (1, 1)), line((2, 0), (3, 1))]) is None


def test_runs_of_other_seeds_are_one_curve(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", [(0, 0.0), (100, 100.0), (200, 200.0)], seed=1)
    other = make_run(tmp_path / "b", [(50, 100.0), (100, 150.0), (400, 450.0)], "stop: {env_steps: 400}\n", seed=2)
    third = make_run(tmp_path / "c", [(100, 20.0)], "policy: {learning_rate: 0.1}\nfilter: mean_std\n", seed=3)
    first, second = read_curves([one, other, third])
    assert (len(first.lines), len(second.lines)) == (2, 1)
    spread = first.spread()
    assert spread is not None
    assert (spread.x[0], spread.x[-1]) == (50.0, 200.0)
    assert (spread.median[0], spread.median[-1]) == (75.0, 225.0)  # (50 + 100) / 2 and (200 + 250) / 2
    assert np.allclose(spread.upper - spread.lower, 25.0)
    assert labels([first]) == ["ppo CartPole-v1"]
    assert labels([first, second]) == [
        "ppo CartPole-v1, policy.learning_rate=None, filter=None",
        "ppo CartPole-v1, policy.learning_rate=0.1, filter=mean_std",
    ]


def test_rows_before_the_first_episode_are_no_points(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(100, None), (200, 21.0), (300, 30.0)], "stop: {episode_return_mean: 475}\n")
    (curve,) = read_curves([run])
    assert as_lists(curve.lines[0]) == [[200.0, 300.0], [21.0, 30.0]]
    assert as_lists(curve.evaluations[0]) == [[200.0], [500.0]]
    assert curve.target == 475


def test_another_key_over_another_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(100, None), (200, 21.0)], "stop: {episode_return_mean: 475, env_steps: 900}\n")
    (by_time,) = read_curves([run], over="wall_s")
    assert as_lists(by_time.lines[0]) == [[1.0], [21.0]]
    (steps,) = read_curves([run], key="env_steps", over="wall_s")
    assert as_lists(steps.lines[0]) == [[0.5, 1.0], [100.0, 200.0]]
    assert (steps.evaluations, steps.target) == ([], 900)


def test_points_come_in_order_and_words_are_none() -> None:
    rows: list[dict[str, Any]] = [{"a": 2, "b": 1.0}, {"a": 1, "b": 3.0}, {"a": 3, "b": True}, {"a": None, "b": 1.0}]
    assert as_lists(line_of(rows, "b", "a")) == [[1.0, 2.0], [3.0, 1.0]]


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


# -- the page


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 500.0, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]),
        (-1.2, 0.3, [-1.2, -1.0, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2]),
        (990.0, 1010.0, [990.0, 995.0, 1000.0, 1005.0, 1010.0]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_long_lines_are_thinned_and_keep_their_ends() -> None:
    whole = (np.arange(10.0), np.arange(10.0) ** 2)
    assert as_lists(thinned(whole, most=4)) == [[0.0, 3.0, 6.0, 9.0], [0.0, 9.0, 36.0, 81.0]]
    assert thinned(whole, most=10) is whole


def parts_of(text: str) -> tuple[ElementTree.Element, dict[str, Any]]:
    """The drawing, which has to be well-formed, and the data of the script."""
    drawing = re.search(r"<svg.*?</svg>", text, re.DOTALL)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert drawing is not None and data is not None
    return ElementTree.fromstring(drawing[0]), json.loads(data[1])


def test_the_page_needs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    runs = [make_run(tmp_path / str(i), [(0, 1.0), (100, 50.0 * i)], seed=i) for i in range(3)]
    runs.append(make_run(tmp_path / "x", [(10, 2.0), (90, 8.0)], "stop: {episode_return_mean: 475}\nfilter: '</b>'\n"))
    written = plot_runs(runs, tmp_path / "curves.html")
    text = written.read_text(encoding="utf-8")
    # Neither a script nor a style nor a picture comes from elsewhere.
    assert not re.search(r"\bsrc=|\bhref=|url\(|@import|http", text)
    assert "$" not in text
    drawing, data = parts_of(text)
    assert len(drawing.findall("polygon")) == 1, "the spread of three runs"
    assert len(drawing.findall("polyline")) == 3 + 1 + 1, "three runs, their median, and one alone"
    assert len(drawing.findall("circle")) == 4
    assert len(drawing.findall("line[@class='target']")) == 1
    median, alone = data["curves"]
    assert (median["x"][0], median["x"][-1], median["y"][-1]) == (0.0, 100.0, 50.0)
    assert (alone["x"], alone["y"]) == ([10.0, 90.0], [2.0, 8.0])
    assert alone["label"] == "ppo CartPole-v1, filter=</b>"
    assert "filter=&lt;/b&gt;: training, last 100 episodes; points: evaluations" in text
    assert "median of 3 runs, and quartiles" in text
    assert "stops at 475" in text


def test_curves_lie_in_the_frame(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(0, 0.0), (50, 20.0), (100, 100.0)])
    drawing, data = parts_of(page(read_curves([run], over="wall_s"), "episode_return_mean", "wall_s"))
    (curve,) = drawing.findall("polyline")
    points = [tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()]
    assert [x for x, _ in points] == [70.0, 475.0, 880.0]
    assert points[0][1] > points[1][1] > points[2][1] >= 16.0, "up is more"
    assert data["x"] == [0.5, 1.5, 70, 880]


def test_a_single_point_can_be_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [(100, 5.0)])
    drawing, _ = parts_of(page(read_curves([run]), "episode_return_mean", "env_steps"))
    assert drawing.find("polyline") is not None


# -- what cannot be drawn


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path, "there is no run folder at "),
        (lambda path: make_run(path, []), ": no episode has finished yet"),
        (lambda path: make_run(path, [(100, None)]), ": no episode has finished yet"),
        (lambda path: make_run(path, [(100, 1.0)], "a: [\n"), "config.yaml is no YAML"),
    ],
)
@pytest.mark.parametrize("name", ["curve.png", "curve.html"])
def test_nothing_to_draw(tmp_path: Path, make: Any, said: str, name: str) -> None:
    with pytest.raises(UserError) as caught:
        plot_runs([make(tmp_path / "run")], tmp_path / name)
    assert said in str(caught.value)
    assert not (tmp_path / name).exists()


def test_a_key_that_no_row_has(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [(100, 1.0)])
    with pytest.raises(UserError, match=r"has the key 'episode_mean'; did you mean 'episode_return_mean'\?"):
        read_curves([run], key="episode_mean")
    with pytest.raises(UserError, match=r"has the key 'walls'; did you mean 'wall_s'\?"):
        read_curves([run], over="walls")
    with pytest.raises(UserError, match="no row has a number for 'evaluation_return_mean'"):
        read_curves([run], key="evaluation_return_mean")


def test_without_matplotlib_the_extra_and_the_page_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run = make_run(tmp_path / "run", [(100, 1.0)])
    said = r"drawing needs matplotlib.*: pip install 'rlcore\[plot\]'; a page needs nothing more: --out curves.html$"
    with pytest.raises(UserError, match=said) as caught:
        plot_runs([run], tmp_path / "curve.png")
    assert "\n" not in str(caught.value)


def test_an_unknown_kind_of_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = make_run(tmp_path / "run", [(100, 1.0)])
    with pytest.raises(UserError, match="cannot write the picture"):
        plot_runs([run], tmp_path / "curve.docx")


def test_the_command(tmp_path: Path) -> None:
    run, out = make_run(tmp_path / "run", [(100, 1.0), (200, 2.0)]), tmp_path / "steps.html"
    options = ["--key", "env_steps", "--over", "wall_s", "--out", str(out)]
    done = CliRunner().invoke(cli.main, ["plot", str(run), *options])
    assert (done.exit_code, done.stdout) == (0, f"{out}\n")
    assert "<title>environment steps over seconds</title>" in out.read_text()

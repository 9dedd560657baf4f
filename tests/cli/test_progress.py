"""What is said of evaluators that are not there."""

from __future__ import annotations

import pytest

from rlcore.cli.progress import PlainProgress


@pytest.mark.parametrize(
    ("places", "size", "line"),
    [
        ([1], 2, "there is no room for evaluator 1: going on with 1 of 2"),
        ([0, 3], 5, "there is no room for evaluators 0, 3: going on with 3 of 5"),
        ([0, 1], 2, "there is no room for evaluators 0, 1, which are all: waiting for some"),
        ([], 4, "there is room again: all 4 evaluators take part"),
    ],
)
def test_one_line_says_who_is_there(places: list[int], size: int, line: str, capsys: pytest.CaptureFixture) -> None:
    PlainProgress().places_vacant(places, size)
    assert capsys.readouterr().err == f"{line}\n"

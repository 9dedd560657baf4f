"""Runs every cell of the space table, prints the page and writes it: ``python -m support.space_table PAGE``."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

from support.space_table.cells import Cell, Figures, Refused, run
from support.space_table.page import Fault, Result, all_cells, page


def attempt(cell: Cell) -> Result:
    """The cell's result, whatever happens in it; a trace goes to stderr."""
    try:
        return run(cell)
    except Exception as error:
        traceback.print_exc()
        return Fault(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def main(path: Path) -> int:
    """0 where every cell is as it should be."""
    started, results, bad = time.monotonic(), {}, 0
    for cell in all_cells():
        result = results[cell] = attempt(cell)
        if not isinstance(result, Refused) and not (isinstance(result, Figures) and result.good):
            print(f"{cell.algorithm.graph}, {cell.observed} to {cell.acted}: {result}", file=sys.stderr)
            bad += 1
    text = page(results)
    path.write_text(text)
    print(text)
    print(f"{len(results)} cells in {time.monotonic() - started:.0f} s, {bad} of them wrong", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Learning curves of one or many runs, as a picture or as a page to look at in a browser."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rlcore.errors import UserError
from rlcore.plotting.curves import RETURN, STEPS, Curve, labels, read_curves

__all__ = ["Curve", "labels", "plot_runs", "read_curves"]

#: Endings of the names of pages.
PAGES = (".html", ".htm")


def plot_runs(
    runs: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], key: str = RETURN, over: str = STEPS
) -> Path:
    """Draws the row key ``key`` of ``runs`` over the row key ``over``, and returns the path of what was written.

    The ending of ``out`` names the format: ``.html`` is a page that needs nothing but a browser, everything else a
    picture, PNG where there is no ending. Raises what :func:`read_curves` does, and ``UserError`` where it cannot be
    written or matplotlib, which draws pictures, is not installed.
    """
    curves, out = read_curves(runs, key, over), Path(out)
    if not out.suffix:
        out = out.with_suffix(".png")
    # Imported on use: pages need no matplotlib, pictures nothing of the page.
    if out.suffix.lower() in PAGES:
        from rlcore.plotting.page import page

        content: bytes | None = page(curves, key, over).encode()
    else:
        content = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            out.write_bytes(content)
        else:
            from rlcore.plotting.picture import draw

            draw(curves, key, over).savefig(out)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write the picture {out}: {error}") from error
    return out

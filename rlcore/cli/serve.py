"""``rlcore serve``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from rlcore.cli import INTERRUPTED
from rlcore.cli.progress import say
from rlcore.errors import UserError
from rlcore.loading import load_policy
from rlcore.serving import PolicyServer, ServeSettings

#: The environment variable that holds the token where no option says it.
TOKEN = "RLCORE_SERVE_TOKEN"


@click.command()
@click.argument("saved", metavar="RUN_OR_CHECKPOINT", type=click.Path(path_type=Path))
@click.option("--host", metavar="H", default=ServeSettings.host, help="The address; one for others needs a token.")
@click.option("--port", metavar="P", type=click.IntRange(0, 65535), default=ServeSettings.port, help="0: any free one.")
@click.option("--token", metavar="T", help=f"What clients have to say; others on this machine see it: rather {TOKEN}.")
@click.option("--token-file", metavar="FILE", type=click.Path(path_type=Path), help="A file that holds the token.")
@click.option("--policy", metavar="ID", help="Which one, where the run has several.")
@click.option("--framework", metavar="F", help="Act with the policy graph of this framework.")
@click.option(
    "--batch-size", metavar="N", type=click.IntRange(min=1), default=ServeSettings.batch_size, help="The most at once."
)
@click.option("--window-ms", metavar="MS", type=click.FloatRange(min=0), default=1.0, help="The wait for others.")
@click.option(
    "--queue-size",
    metavar="N",
    type=click.IntRange(min=1),
    default=ServeSettings.queue_size,
    help="How many may wait.",
)
@click.option(
    "--body-limit",
    metavar="BYTES",
    type=click.IntRange(min=1),
    default=ServeSettings.body_limit,
    help="The largest request.",
)
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def serve(
    saved: Path,
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    policy: str | None,
    framework: str | None,
    batch_size: int,
    window_ms: float,
    queue_size: int,
    body_limit: int,
    trust: bool,
) -> None:
    """Let a trained policy act for whoever asks over HTTP, and print the address. Ctrl-C answers what is under way.

    Of a run its last checkpoint is taken; the best one is RUN/checkpoints/best.
    """
    settings = ServeSettings(
        host=host,
        port=port,
        token=_token(token, token_file),
        batch_size=batch_size,
        window_s=window_ms / 1000.0,
        queue_size=queue_size,
        body_limit=body_limit,
    )
    trained = load_policy(saved, policy=policy, framework=framework, trust=trust)
    over = _told_to_stop()
    with PolicyServer(trained, settings) as server:
        click.echo(server.url)
        sys.stdout.flush()
        say("serving; Ctrl-C ends it")
        while not over.wait(0.5):  # signals are seen between two waits where they do not end one
            pass
        say("answering what is under way")
    sys.exit(INTERRUPTED)


def _token(given: str | None, file: Path | None) -> str:
    if given is not None and file is not None:
        raise UserError("give --token or --token-file, not both")
    if file is not None:
        try:
            found = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--token-file: {error}") from error
        if not found:
            raise UserError(f"--token-file: {file} is empty")
        return found
    return os.environ.get(TOKEN, "") if given is None else given


def _told_to_stop() -> threading.Event:
    """Set by the first Ctrl-C or SIGTERM; a second one ends the process at once."""
    over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if over.is_set():
            raise KeyboardInterrupt
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return over

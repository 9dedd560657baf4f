"""``rlcore serve`` in a process of its own."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from rlcore.loading import load_policy


@pytest.fixture
def run(rlcore: Any, small: Any, tmp_path: Path) -> Path:
    rlcore.result("train", *small, "--stop", "iteration=1", "--out", "run")
    return tmp_path / "run"


@contextmanager
def served(rlcore: Any, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    process = rlcore.start("serve", *arguments, "--port", "0", **environment)
    try:
        url = urlsplit(process.stdout.readline().strip())
        assert url.scheme == "http", process.stderr.read()
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
        yield process, connection
        connection.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def ask(connection: Any, **headers: str) -> tuple[int, Any]:
    body = json.dumps({"observations": OBS.tolist()})
    connection.request("POST", "/act", body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


OBS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def test_it_acts_until_ctrl_c(rlcore: Any, run: Path) -> None:
    with served(rlcore, "run") as (process, connection):
        assert ask(connection) == (200, {"actions": load_policy(run).act(OBS).tolist(), "weights_version": 1})
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        said = process.stderr.read().splitlines()
    assert said == ["serving; Ctrl-C ends it", "answering what is under way"]


def test_the_token_comes_from_a_file_or_the_environment(rlcore: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with served(rlcore, "run", "--token-file", "token") as (_, connection):
        assert ask(connection)[0] == 401
        assert ask(connection, Authorization="Bearer secret")[0] == 200
    with served(rlcore, "run", RLCORE_SERVE_TOKEN="other") as (process, connection):
        assert ask(connection, Authorization="Bearer secret")[0] == 401
        process.terminate()
        assert process.wait(20) == 130


def test_what_it_refuses(rlcore: Any, run: Path, tmp_path: Path) -> None:
    assert "can be reached from other machines: set a token" in rlcore.error("serve", "run", "--host", "0.0.0.0")
    assert rlcore.error("serve", "run", "--token", "a", "--token-file", "b") == "give --token or --token-file, not both"
    assert "--token-file: [Errno 2]" in rlcore.error("serve", "run", "--token-file", "lost")
    (tmp_path / "token").write_text("\n")
    assert rlcore.error("serve", "run", "--token-file", "token") == "--token-file: token is empty"
    assert "has no policy 'other', only: default" in rlcore.error("serve", "run", "--policy", "other")
    assert "there is no checkpoint at" in rlcore.error("serve", "lost")

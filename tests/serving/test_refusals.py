"""What is no request is refused with a reason, and the server goes on; limits hold; strangers are kept out."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any

import pytest
from support.serving import Client, Held, fresh, raw

from rlcore.errors import UserError
from rlcore.serving import PolicyServer, ServeSettings

FINE = {"observation": [0.0, 0.5, 1.0]}


def assert_serves(server: PolicyServer) -> None:
    asking = Client(server)
    assert asking.act(**FINE)[0] == 200
    asking.close()


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        ({}, 400, "neither an 'observation' nor 'observations'"),
        ({"obs": [0, 0, 0]}, 400, "neither an 'observation'"),
        ({**FINE, "observations": []}, 400, "unknown key 'observations' beside 'observation'"),
        ({**FINE, "memories": []}, 400, "unknown key 'memories' beside 'observation'; there is 'memory'"),
        ({"observation": [0, 0]}, 422, "observation: observation  of shape (2,), expected (3,)"),
        ({"observation": [[0, 0, 0]]}, 422, "these are several; send them as 'observations'"),
        ({"observation": [0, 0, "1"]}, 422, "values, not numbers"),
        ({"observation": [0, 0, None]}, 422, "object values, not numbers"),
        ({"observation": [0, 0, [1]]}, 422, "inhomogeneous"),
        ({"observation": [0, 0, {}]}, 422, "object values"),
        ({"observation": {"a": 1}}, 422, "expected (3,)"),
        ({"observation": None}, 422, "expected (3,)"),
        ({"observation": "abc"}, 422, "expected (3,)"),
        ({"observation": [0, 0, 1e300]}, 422, "not finite"),
        ({"observation": [0, 0, 10**30]}, 422, "not numbers"),
        ({"observations": []}, 422, "0 of them, at least 1 and at most 4"),
        ({"observations": [[0, 0, 0]] * 5}, 422, "5 of them, at least 1 and at most 4"),
        ({"observations": {}}, 400, "'observations' is no list"),
        ({"observations": [0, 0, 0]}, 422, "this is one; send it as 'observation'"),
        ({"observations": [[0, 0, 0], [0, 0]]}, 422, "inhomogeneous"),
        ({**FINE, "memory": "AAAA"}, 422, "this policy remembers nothing"),
    ],
)
def test_requests_that_are_none(request_: Any, status: int, why: str, serve: Any, client: Any) -> None:
    server = serve(batch_size=4)
    asking = client(server)
    found, answer = asking.act(**request_)
    assert (found, list(answer)) == (status, ["error"]) and why in answer["error"]
    assert asking.act(**FINE)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"1", b"null", b'"a"', b"\xff\xfe", b'{"observation": [NaN, 0, 0]}',
        b'{"observation": [0, 0, -Infinity]}', b"[" * 100_000, b'{"observation": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"a":' * 100_000, b'{"observation": [0, 0, ' + b"1" * 5000 + b"]}", b"\x00" * 100,
    ],
    ids=lambda body: repr(body[:24]),
)  # fmt: skip
def test_bodies_that_are_no_json_of_a_request(body: bytes, serve: Any, client: Any) -> None:
    asking = client(serve())
    status, answer = asking.ask("POST", "/act", body)
    assert status in (400, 422) and answer["error"]
    assert asking.act(**FINE)[0] == 200


@pytest.mark.parametrize("memory", [1, "", "AAAA", "é", "A" * 100_000, ["A"], {"a": 1}])
def test_memories_that_are_none(memory: Any, serve: Any, client: Any) -> None:
    asking = client(serve(fresh(lstm=4)))
    status, answer = asking.act(**FINE, memory=memory)
    assert status == 422 and "none of this policy's" in answer["error"]
    assert asking.act(observations=[FINE["observation"]] * 2, memories=[None])[0] == 422
    assert asking.act(**FINE)[0] == 200


def test_memories_are_of_numbers(serve: Any, client: Any) -> None:
    import base64

    import numpy as np

    asking = client(serve(fresh(lstm=4)))
    size = len(base64.b64decode(asking.act(**FINE)[1]["memory"]))
    broken = np.full((size - 8) // 4, np.nan, np.float32).tobytes()
    for t, state in ((0, broken), (-1, bytes(size - 8))):
        text = base64.b64encode(np.int64(t).tobytes() + state).decode()
        assert asking.act(**FINE, memory=text)[0] == 422


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/../etc/passwd", 404),
        ("POST", "/acts", 404),
        ("GET", "/act", 405),
        ("PUT", "/act", 405),
        ("DELETE", "/policy", 405),
        ("OPTIONS", "/act", 405),
        ("POST", "/health", 405),
    ],
)
def test_other_paths_and_methods(method: str, path: str, status: int, serve: Any, client: Any) -> None:
    asking = client(serve())
    assert asking.ask(method, path)[0] == status
    assert asking.ask("GET", "/health") == (200, {"status": "ok"})


ACT = b"POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LINES = {
    b"nonsense\r\n\r\n": b"400",
    b"GET /health HTTP/9.9\r\n\r\n": b"505",
    b"BREW /act HTTP/1.1\r\nHost: localhost\r\n\r\n": b"501",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n": b"414",
    b"GET /health HTTP/1.1\r\nA: " + b"b" * 70_000 + b"\r\n\r\n": b"431",
    b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n": b"431",
    ACT + b"\r\n": b"411",
    ACT + b"Transfer-Encoding: chunked\r\n\r\n": b"411",
    ACT + b"Content-Length: -1\r\n\r\n": b"400",
    ACT + b"Content-Length: x\r\n\r\n": b"400",
    ACT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n": b"400",
    ACT + b"Content-Length: 99999999\r\n\r\n": b"413",
    ACT + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n": b"413",
    b"POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}": b"415",
    ACT.replace(b"application/json", b"text/plain") + b"Content-Length: 2\r\n\r\n{}": b"415",
    ACT.replace(b"localhost", b"evil.example") + b"Content-Length: 2\r\n\r\n{}": b"403",
    ACT.replace(b"Host: localhost\r\n", b"") + b"Content-Length: 2\r\n\r\n{}": b"403",
}


@pytest.mark.parametrize("data", LINES, ids=lambda data: repr(data[:60] + data[-20:]))
def test_heads_that_are_refused(data: bytes, serve: Any) -> None:
    server = serve()
    answer = raw(server, data, half=True)
    assert LINES[data] in answer.split(b"\r\n")[0] + answer[:200]
    assert b'{"error": "' in answer
    assert_serves(server)


def test_clients_that_go_in_the_middle(serve: Any) -> None:
    server = serve()
    head = b"POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
    assert raw(server, head + b'{"obs', half=True) == b""
    for data in (b"", b"POST /a", head, head + b"{"):
        with socket.create_connection((server.host, server.port), timeout=20) as connection:
            connection.sendall(data)
    assert_serves(server)


def test_silent_clients_are_let_go(serve: Any) -> None:
    server = serve(idle_s=0.1)
    assert raw(server, b"POST /act HTTP/1.1\r\n") == b""
    assert_serves(server)


def test_a_body_that_is_too_large(serve: Any, client: Any) -> None:
    server = serve(body_limit=100)
    assert client(server).act(observation=[0.1234567890123456] * 3)[0] == 200
    status, answer = client(server).act(observation=[0.0] * 100)
    assert (status, answer["error"]) == (413, "a body has at most 100 bytes")
    assert_serves(server)


def test_no_more_requests_wait_than_may(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    policy = held.policy
    server = serve(policy, queue_size=2, window_s=0.0)
    monkeypatch.setattr(server.batcher, "_policy", held)
    body = json.dumps(FINE).encode()
    waiting = []
    for number in range(3):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
        connection.request("POST", "/act", body, {"Content-Type": "application/json"})
        waiting.append(connection)
        if number == 0:
            assert held.entered.wait(20)
    while server.batcher.waiting < 2:
        pass
    late = Client(server)
    status, answer = late.act(**FINE)
    assert (status, late.headers["Retry-After"]) == (503, "1") and "try again" in answer["error"]
    # Whether it lives can be asked all the same.
    assert late.ask("GET", "/health")[0] == 200
    held.go.set()
    assert [connection.getresponse().status for connection in waiting] == [200] * 3
    for connection in (*waiting, late.connection):
        connection.close()


def test_the_end_answers_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    server = PolicyServer(held.policy, ServeSettings(port=0, window_s=0.0))
    monkeypatch.setattr(server.batcher, "_policy", held)
    waiting = [http.client.HTTPConnection(server.host, server.port, timeout=20) for _ in range(3)]
    for connection in waiting:
        connection.request("POST", "/act", json.dumps(FINE), {"Content-Type": "application/json"})
    assert held.entered.wait(20)
    while server.batcher.waiting < 2:
        pass
    ending = threading.Thread(target=server.close)
    ending.start()
    server._thread.join(20)  # nobody is accepted any more
    held.go.set()
    ending.join(20)
    assert not ending.is_alive()
    for connection in waiting:
        assert connection.getresponse().status == 200
        connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port), timeout=20)


def test_no_more_connections_than_may(serve: Any) -> None:
    server = serve(connections=2)
    open_ = [Client(server) for _ in range(2)]
    assert [one.act(**FINE)[0] for one in open_] == [200, 200]
    late = Client(server)
    status, answer = late.ask("GET", "/health")
    assert status == 503 and "connections" in answer["error"]
    for one in (*open_, late):
        one.close()
    while server._listener._room._value < 2:
        pass
    assert_serves(server)


def test_a_fault_of_the_policy_is_said_and_the_server_goes_on(serve: Any, client: Any, monkeypatch: Any) -> None:
    held = Held()
    held.go.set()
    server = serve(held.policy)
    monkeypatch.setattr(server.batcher, "_policy", held)
    asking = client(server)
    status, answer = asking.act(observation=[99.0, 0.0, 0.0])
    assert (status, answer["error"]) == (500, "RuntimeError, see the server's log")
    assert asking.act(**FINE)[0] == 200


def test_a_policy_that_does_not_answer(serve: Any, client: Any, monkeypatch: Any) -> None:
    held = Held()
    server = serve(held.policy, patience_s=0.05)
    monkeypatch.setattr(server.batcher, "_policy", held)
    assert client(server).act(**FINE)[0] == 504
    held.go.set()
    assert_serves(server)


def test_a_token_is_asked_for_where_there_is_one(serve: Any, client: Any) -> None:
    asking = client(serve(token="gehéim"))
    body = json.dumps(FINE).encode()
    wrong = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic gehéim"}, {"Authorization": "Bearer"}]
    for headers in wrong:
        sent = {name: value.encode("utf-8").decode("latin-1") for name, value in headers.items()}
        status, answer = asking.ask("POST", "/act", body, sent)
        assert status == 401 and "Authorization: Bearer TOKEN" in answer["error"]
        assert asking.headers["WWW-Authenticate"] == "Bearer"
        asking.close()
    right = {"Authorization": "bearer gehéim".encode().decode("latin-1"), "Host": "policies.example"}
    assert asking.ask("POST", "/act", body, right)[0] == 200
    assert asking.ask("GET", "/policy")[0] == 401
    assert asking.ask("GET", "/policy", headers=right)[0] == 200
    assert asking.ask("GET", "/health")[0] == 200


def test_a_server_that_acts_no_more_is_not_well(serve: Any, client: Any) -> None:
    server = serve()
    asking = client(server)
    assert asking.ask("GET", "/health") == (200, {"status": "ok"})
    server.batcher.close()
    assert asking.ask("GET", "/health") == (503, {"error": "the policy acts no more"})
    assert asking.act(**FINE)[0] == 503


def test_what_is_served_is_told(serve: Any, client: Any) -> None:
    status, about = client(serve(fresh(lstm=4), batch_size=7)).ask("GET", "/policy")
    assert status == 200 and about["remembers"] is True and about["batch_size"] == 7
    assert about["action_space"] == {"type": "Discrete", "n": 3, "start": 1, "dtype": "int64"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(UserError, match="can be reached from other machines: set a token"):
        ServeSettings(host=host)
    assert ServeSettings(host=host, token="secret").host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_the_loopback_needs_none(host: str) -> None:
    assert ServeSettings(host=host).token == ""


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"port": 70000}, "a port is a number below 65536"),
        ({"token": "a\nb"}, "characters that no header can hold"),
        ({"batch_size": 0}, "batch_size is 1 or more"),
        ({"window_s": -1.0}, "cannot wait for -1.0 s"),
    ],
)
def test_settings_that_make_no_sense(settings: Any, why: str) -> None:
    with pytest.raises(UserError, match=why):
        ServeSettings(**settings)


def test_an_address_that_is_taken(serve: Any) -> None:
    server = serve()
    with pytest.raises(UserError, match=f"a policy cannot be served at 127.0.0.1:{server.port}"):
        PolicyServer(fresh(), ServeSettings(port=server.port))

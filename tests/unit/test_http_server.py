"""The server of the status page, and clients that are slow, silent, many, or led here from elsewhere."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from ps_train import http_server
from ps_train.errors import ConfigError
from ps_train.http_server import HttpServer, is_loopback

BIG = "x" * (32 << 20)


@pytest.fixture
def server():
    routes = {"/": lambda: ("text/html", "page ü"), "/big": lambda: ("text/plain", BIG), "/broken": lambda: 1 / 0}
    made = HttpServer("127.0.0.1", 0, routes, {"X-Of-All": "yes"})
    made.start()
    yield made
    made.stop()


def port_of(server):
    return int(server.address.rstrip("/").rpartition(":")[2])


def get(server, path="", **headers):
    request = urllib.request.Request(server.address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, dict(answer.headers), answer.read().decode()


def code_of(server, path, method="GET", **headers):
    client = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=20)
    with contextlib.closing(client):
        client.request(method, path, headers=headers)
        return client.getresponse().status


def test_a_path_has_its_answer_and_every_answer_its_headers(server):
    status, headers, text = get(server)
    assert (status, headers["Content-Type"], headers["X-Of-All"], text) == (200, "text/html", "yes", "page ü")
    assert get(server, "?a=b")[2] == "page ü"
    assert code_of(server, "/", "HEAD") == 200


@pytest.mark.parametrize("path", ["/other", "/../etc/passwd", "/index.html", "/api"])
def test_another_path_does_not_exist(server, path):
    assert code_of(server, path) == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "NONSENSE"])
def test_nothing_can_be_changed(server, method):
    assert code_of(server, "/", method) == 501


@pytest.mark.parametrize(
    ("host", "code"),
    [("127.0.0.1:80", 200), ("localhost:8000", 200), ("[::1]:80", 200), ("evil.example", 403), ("127.0.0.1.evil", 403)],
)
def test_a_page_of_elsewhere_cannot_read_through_a_browser_that_it_leads_to_loopback(server, host, code):
    assert code_of(server, "/", Host=host) == code


def test_an_address_for_others_accepts_every_name():
    made = HttpServer("0.0.0.0", 0, {"/": lambda: ("text/plain", "page")}, {})
    made.start()
    try:
        assert code_of(made, "/", Host="chief.example") == 200
    finally:
        made.stop()


def test_a_route_that_fails_fails_alone(server):
    with pytest.raises((urllib.error.URLError, http.client.HTTPException, ConnectionError)):
        get(server, "broken")
    assert get(server)[0] == 200


def test_silent_and_slow_clients_hold_up_nobody_and_are_dropped(server, monkeypatch):
    monkeypatch.setattr(http_server, "_CLIENT_SECS", 1.0)
    clients = [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(4)]
    reader = socket.create_connection(("127.0.0.1", port_of(server)))
    reader.sendall(b"GET /big HTTP/1.0\r\n\r\n")  # and never reads
    stop = threading.Event()

    def drip():
        with contextlib.suppress(OSError):
            while not stop.wait(0.2):
                clients[0].sendall(b"G")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        began = time.monotonic()
        assert get(server)[0] == 200
        assert time.monotonic() - began < 0.9
        for client in clients[1:]:
            client.settimeout(10)
            assert client.recv(1) == b""
        dripping.join(10)  # its connection is cut although it sends a byte now and then
        assert not dripping.is_alive()
    finally:
        stop.set()
        for client in [*clients, reader]:
            client.close()


def test_too_many_clients_are_refused_at_once_and_later_ones_served(server):
    clients = [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(http_server._MOST_CLIENTS)]
    deadline = time.monotonic() + 10
    codes = []
    while 503 not in codes and time.monotonic() < deadline:  # until all of them are accepted
        codes.append(code_of(server, "/"))
    assert 503 in codes
    for client in clients:
        client.close()
    while (code := code_of(server, "/")) != 200 and time.monotonic() < deadline:
        pass
    assert code == 200


def test_a_port_that_is_taken_is_an_error_of_the_configuration(server):
    with pytest.raises(ConfigError, match=r"^status_host=127.0.0.1, status_port=\d+ cannot be opened \(Addr"):
        HttpServer("127.0.0.1", port_of(server), {}, {})


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.77", "not a host"])
def test_an_address_that_is_not_here_is_an_error_of_the_configuration(host):
    with pytest.raises(ConfigError, match=r"cannot be opened .*: use another address or port, or --status_port=-1"):
        HttpServer(host, 0, {}, {})


def test_ipv6_works():
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    made = HttpServer("::1", 0, {"/": lambda: ("text/plain", "page")}, {})
    made.start()
    try:
        assert made.address.startswith("http://[::1]:")
        assert get(made)[2] == "page"
    finally:
        made.stop()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_loopback_is_known(host, expected):
    assert is_loopback(host) is expected

"""The server of the status page, and clients that are slow, silent, many, or led here from elsewhere."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from ps_train.base import http_server
from ps_train.base.errors import ConfigError
from ps_train.base.http_server import HttpServer
from tests.support.machine.processes import eventually

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
    [
        ("127.0.0.1:80", 200),
        ("127.0.0.2", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("LocalHost.:80", 200),
        ("localhost.", 200),
        ("localhost:", 200),
        ("[::1]:80", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil", 403),
        ("localhost.evil:80", 403),
        ("evil.localhost.evil", 403),
        ("localhost:80:80", 403),
        ("192.0.2.1", 403),
        ("[2001:db8::1]:80", 403),
        ("evil@localhost", 403),
        ("..", 403),
    ],
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


@pytest.mark.parametrize("begin", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 9000])
def test_silent_clients_give_their_places_to_new_ones_again_and_again(server, begin):
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            for _ in range(2 * http_server._MOST_CLIENTS):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(server))))
                client.sendall(begin)
            for _ in range(3):
                began = time.monotonic()
                assert code_of(server, "/") == 200
                assert time.monotonic() - began < http_server._CLIENT_SECS / 2


def test_clients_that_are_being_answered_keep_their_places_and_more_are_refused_at_once():
    asked, goes_on = threading.Semaphore(0), threading.Event()

    def slow():
        asked.release()
        goes_on.wait(20)
        return "text/plain", "late"

    made = HttpServer("127.0.0.1", 0, {"/": lambda: ("text/plain", "page"), "/slow": slow}, {})
    made.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(http_server._MOST_CLIENTS) as pool:
            codes = [pool.submit(code_of, made, "/slow") for _ in range(http_server._MOST_CLIENTS)]
            assert all(asked.acquire(timeout=20) for _ in codes)
            try:
                assert code_of(made, "/") == 503
            finally:
                goes_on.set()
            assert [code.result() for code in codes] == [200] * len(codes)
        assert eventually(lambda: code_of(made, "/") == 200, 10)
    finally:
        made.stop()


def test_clients_that_do_not_take_their_answer_give_their_places_to_new_ones(server, monkeypatch):
    monkeypatch.setattr(http_server, "_ANSWER_SECS", 0.0)
    with contextlib.ExitStack() as stack:
        for _ in range(http_server._MOST_CLIENTS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(server))))
            client.sendall(b"GET /big HTTP/1.0\r\n\r\n")
            assert client.recv(1)
        assert code_of(server, "/") == 200


def test_endless_headers_are_refused_and_a_connection_serves_one_request(server):
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as client:
        with contextlib.suppress(OSError):  # it may hang up while they are sent
            client.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 300 + b"\r\n")
        assert b"431" in client.recv(100)
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n" * 2)
        answers = b""
        with contextlib.suppress(ConnectionResetError):
            while found := client.recv(1 << 16):
                answers += found
        assert answers.count(b"200 OK") == 1


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

"""A small HTTP server for the status page and for probes.

It is read-only, has a thread for each client, and no client can hold anything up: a new client takes the place of one
that has not sent its request yet.

server = HttpServer("127.0.0.1", 0, routes)          # routes: path -> function that gives (content type, text)
server.start()
server.address                                         # http://127.0.0.1:41573/
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping

from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import is_loopback

log = logging.getLogger(__name__)

_CLIENT_SECS = 10.0
_MOST_CLIENTS = 16
_LOOK_SECS = 0.1
"""Seconds after which a server that is told to stop notices it."""

_ANSWER_SECS = 1.0
"""Seconds for which a client keeps its place while it takes its answer."""

Route = Callable[[], tuple[str, str]]
"""A function that returns the content type and the text of an answer."""


class HttpServer:
    """A server of a few paths.

    Args:
      host: address to listen on.
      port: port to listen on; 0 for a free one.
      routes: function by path; it runs in a thread of the client's.
      headers: headers of every answer.
      flag: the flag that has the port, for the error.

    Raises:
      ConfigError: the port cannot be opened.
    """

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Route],
        headers: Mapping[str, str],
        flag: str = "status_port",
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        own = {"routes": dict(routes), "headers_of_all": dict(headers), "only_local": is_loopback(host)}
        handler = type("Handler", (_Handler,), own)
        server = type("Server", (_Server,), {"address_family": family})
        try:
            self._server = server((host, port), handler)
        except (OSError, OverflowError) as error:
            text = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"status_host={host}, {flag}={port} cannot be opened ({text}): use another address or port, or "
                f"--{flag}=-1 to serve nothing."
            ) from None
        self._thread: threading.Thread | None = None
        name = f"[{host}]" if family == socket.AF_INET6 else host
        self.address = f"http://{name}:{self._server.server_address[1]}/"

    def start(self) -> None:
        """Serves in a daemon thread."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=[_LOOK_SECS], daemon=True, name="status"
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends the server, for a process that goes on after its task."""
        if self._thread is not None:  # or the call would wait for ever
            self._server.shutdown()
        self._server.server_close()


def _names_this_machine(header: str) -> bool:
    """Returns True for a Host header, with or without a port, that names this machine alone, or is empty.

    A request to a loopback address with another name comes from a page of elsewhere that a browser was lured to: its
    name leads here by DNS.  An address is safe, because no DNS stands behind it.
    """
    host, colon, port = header.strip().rpartition(":")
    if not colon or not (port.isdigit() or not port):
        host = header.strip()
    return not host or is_loopback(host)


@dataclasses.dataclass(eq=False)
class _Client:
    """A connection.

    Attributes:
      began: time of its begin.
      asked: time of its complete request; None before.
    """

    socket: socket.socket
    began: float
    asked: float | None = None

    def may_lose_its_place(self) -> bool:
        """Returns True if it is silent, or does not take its answer."""
        return self.asked is None or time.monotonic() - self.asked > _ANSWER_SECS


def _cut(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's would look up this host's name, which may take long
        self.server_name, self.server_port = "status", self.server_address[1]

    def server_activate(self) -> None:
        self._clients: dict[object, _Client] = {}
        self._lock = threading.Lock()
        super().server_activate()

    def process_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        request.settimeout(_CLIENT_SECS)
        if self._has_place(request):
            super().process_request(request, client_address)
            return
        request.setblocking(False)
        with contextlib.suppress(OSError):
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)

    def _has_place(self, request: socket.socket) -> bool:
        """Takes a place for a new client, that of the first silent one if all are taken; returns False without one."""
        with self._lock:
            if len(self._clients) >= _MOST_CLIENTS:
                others = [client for client in self._clients.values() if client.may_lose_its_place()]
                if not others:
                    return False
                first = min(others, key=lambda client: (client.asked is not None, client.began))
                del self._clients[first.socket]
                _cut(first.socket)  # its thread ends
            self._clients[request] = _Client(request, time.monotonic())
            return True

    def process_request_thread(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        deadline = threading.Timer(_CLIENT_SECS, _cut, [request])  # time-outs of a socket begin again at each byte
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            with self._lock:
                self._clients.pop(request, None)

    def has_asked(self, request: object) -> None:
        """Notes that the request of a client is complete."""
        with self._lock:
            if request in self._clients:
                self._clients[request].asked = time.monotonic()

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a client of the status page failed", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    routes: Mapping[str, Route] = {}
    headers_of_all: Mapping[str, str] = {}
    only_local = False
    timeout = _CLIENT_SECS
    server_version, sys_version = "ps_train", ""

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def _answer(self, has_body: bool) -> None:
        assert isinstance(self.server, _Server)
        self.server.has_asked(self.request)
        route = self.routes.get(self.path.partition("?")[0])
        code, kind, text = 404, "text/plain; charset=utf-8", "there is no such page\n"
        if self.only_local and not _names_this_machine(self.headers.get("Host", "")):
            code, text = 403, "this page is for 127.0.0.1 and localhost; see --status_host\n"
        elif route is not None:
            code, (kind, text) = 200, route()
        body = text.encode()
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **self.headers_of_all}.items():
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the page is polled."""

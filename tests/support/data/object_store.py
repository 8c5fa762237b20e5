"""An S3 server on the loopback, and a way to it that fails as a test says.

with object_store() as store:
    store.environment           # variables with which s3fs finds it
    store.fault = "503"         # every request is refused with SlowDown; "403": the credentials are refused;
                                # "cut": uploads end after a part; "hang": no request is answered
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
_ANSWERS = {
    "503": b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>",
    "403": b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist in our records.</Message></Error>",
}
"""Bodies of refused requests, by their status."""


class ObjectStore:
    """The way to the server.

    Attributes:
      environment: variables with which s3fs finds it.
      fault: "" for none; "503", "cut", "403" or "hang".
      failed: number of requests that failed on purpose.
    """

    def __init__(self, server: Any) -> None:
        self._target = server.get_host_and_port()
        self.fault, self.failed = "", 0
        self._proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._proxy.server_address[1]}"}
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()

    def _handler(store) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                if self.headers.get("Expect", "").lower() == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                length = int(self.headers.get("Content-Length", 0))
                if store.fault == "cut" and self.command == "PUT":
                    self.rfile.read(length // 2)
                    store.failed += 1
                    self.close_connection = True
                    return
                body = self.rfile.read(length)
                if store.fault in _ANSWERS:
                    store.failed += 1
                    self._answer(int(store.fault), [("Content-Type", "application/xml")], _ANSWERS[store.fault])
                    return
                if store.fault == "hang":
                    store.failed += 1
                    while store.fault == "hang":
                        time.sleep(0.05)
                    self.close_connection = True
                    return
                connection = http.client.HTTPConnection(*store._target, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
                connection.request(self.command, self.path, body, headers)
                found = connection.getresponse()
                self._answer(found.status, found.getheaders(), found.read())
                connection.close()

            def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                length = {name.lower(): value for name, value in headers}.get("content-length", len(body))
                self.send_header("Content-Length", str(length if self.command == "HEAD" else len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Serves; skips the test where the packages are not there."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    store = ObjectStore(server)
    try:
        yield store
    finally:
        store.close()
        server.stop()

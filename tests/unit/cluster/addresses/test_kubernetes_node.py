"""The rack of a pod from a label of its node, asked of an API server with a certificate of its own."""

from __future__ import annotations

import http.server
import json
import pathlib
import ssl
import subprocess
import threading
from collections.abc import Iterator

import pytest

from ps_train.base.errors import ConfigError, UnreachableError
from ps_train.cluster.addresses.own_rack import with_own_rack
from ps_train.config.job import Job, Task

ZONE = "topology.kubernetes.io/zone"
NODE = {"kind": "Node", "metadata": {"name": "n 1", "labels": {ZONE: "zone-b", "example/rack": "r7", "odd": ""}}}


class Api(http.server.BaseHTTPRequestHandler):
    """Answers as the API server does; `answers` has the next ones, the last of them for ever."""

    answers: list[tuple[int, str]] = []

    def do_GET(self):
        code, text = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if self.headers["Authorization"] != "Bearer secret" or self.path != "/api/v1/nodes/n%201":
            code = 403
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def secrets(tmp_path_factory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("secrets")
    (directory / "token").write_text("secret\n")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=api"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{directory}/key", "-out", f"{directory}/ca.crt"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return directory


@pytest.fixture
def environ(secrets) -> Iterator[dict[str, str]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secrets / "ca.crt", secrets / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Api.answers = [(200, json.dumps(NODE))]
    port = str(server.server_address[1])
    yield {"NODE_NAME": "n 1", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    server.shutdown()
    server.server_close()


def rack_of(environ, secrets, **fields) -> str:
    job = Job(**{"rack": "kubernetes", "update": "sync", "startup_timeout_secs": 5.0, **fields})
    return with_own_rack(job, Task("worker", 0), environ, secrets).rack


def test_the_rack_is_the_label_of_the_node(environ, secrets):
    assert rack_of(environ, secrets) == "zone-b"
    Api.answers = [(503, ""), (200, json.dumps(NODE))]
    assert rack_of({**environ, "https_proxy": "http://127.0.0.1:9"}, secrets, k8s_rack_label="example/rack") == "r7"


@pytest.mark.parametrize(
    ("answer", "label", "text"),
    [
        ((200, json.dumps(NODE)), "other", "the node n 1 has no label other: name one of its labels with --k8s_rack_l"),
        ((200, json.dumps(NODE)), "odd", "the rack '' (from the label odd) is not valid: use letters"),
        ((200, json.dumps({"metadata": {}})), "other", "has no label other: name one of its labels with --k8s_rack_la"),
        ((200, "[]"), ZONE, "the API server's answer for the node n 1 is not a node: []."),
        ((200, "<html>"), ZONE, "is not a node: <html>."),
        ((403, ""), ZONE, "answers with the HTTP status 403: give the pod a service account that may get nodes"),
        ((404, ""), ZONE, "answers with the HTTP status 404: check NODE_NAME."),
    ],
)
def test_a_node_without_a_rack_is_refused_in_one_line(environ, secrets, answer, label, text):
    Api.answers = [answer]
    with pytest.raises(ConfigError) as caught:
        rack_of(environ, secrets, k8s_rack_label=label)
    assert str(caught.value).startswith("rack=kubernetes, but ")
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_a_pod_that_cannot_ask_is_refused_and_a_silent_server_is_asked_again(environ, secrets, tmp_path):
    for name in ("NODE_NAME", "KUBERNETES_SERVICE_HOST"):
        with pytest.raises(ConfigError, match=f"{name} is not set"):
            rack_of({**environ, name: ""}, secrets)
    with pytest.raises(ConfigError, match="automountServiceAccountToken: true"):
        rack_of(environ, tmp_path)
    Api.answers = [(500, "")]
    with pytest.raises(UnreachableError, match=r"gave up after 0.1s: .*does not answer \(HTTP status 500\)"):
        rack_of(environ, secrets, startup_timeout_secs=0.1)

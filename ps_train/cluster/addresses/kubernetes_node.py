"""A label of the Kubernetes node on which this pod runs, asked of the API server.

    label_of_node(job, os.environ, secrets)     # the value of --k8s_rack_label, such as rack-3

The pod needs the name of its node in `NODE_NAME` (the downward API's `spec.nodeName`), and a service account that may
get nodes.
"""

from __future__ import annotations

import http.client
import pathlib
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError, UnreachableError
from ps_train.base.polling import poll_until
from ps_train.base.untrusted import UntrustedError, parse_json
from ps_train.config.fields import shown
from ps_train.config.job import Job
from ps_train.config.job_values import described

_MOST_BYTES = 4 << 20
_CALL_SECS, _POLL_SECS = 5.0, 1.0


def label_of_node(job: Job, environ: Mapping[str, str], secrets: pathlib.Path) -> str:
    """Returns the value of the node's label `k8s_rack_label`.

    Args:
      job: names the label, and gives the time for which a silent server is asked again.
      environ: names the node and the API server.
      secrets: the directory with the token of the service account and the certificate of the server.

    Raises:
      ConfigError: the pod cannot ask, or the node has no such label.
      UnreachableError: the server does not answer in time.
    """
    asked = described(job, "rack")
    for name, advice in (
        ("NODE_NAME", "set it from the field spec.nodeName of the pod"),
        ("KUBERNETES_SERVICE_HOST", "start the task in a pod"),
    ):
        if not environ.get(name):
            raise ConfigError(f"{asked}, but {name} is not set: {advice}.")
    try:
        token = (secrets / "token").read_text(encoding="ascii").strip()
        context = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{asked}, but the service account in {secrets} cannot be read ({getattr(error, 'strerror', error)}): set "
            "automountServiceAccountToken: true."
        ) from None
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    node = environ["NODE_NAME"]
    server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    url = f"https://{server}/api/v1/nodes/{urllib.parse.quote(node, safe='')}"
    labels = _labels(job, node, _asked(job, url, token, context))
    if job.k8s_rack_label not in labels:
        known = ", ".join(sorted(labels)[:20]) or "none"
        raise ConfigError(
            f"{asked}, but the node {shown(node)} has no label {job.k8s_rack_label}"
            f": name one of its labels with --k8s_rack_label ({known})."
        )
    return str(labels[job.k8s_rack_label])


def _labels(job: Job, node: str, text: bytes) -> dict[str, Any]:
    try:
        found = parse_json(text, _MOST_BYTES)
        labels = found["metadata"].get("labels", {})
        return dict(labels)
    except (UntrustedError, AttributeError, KeyError, TypeError, ValueError):
        start = shown(text[:60].decode(errors="replace"))
        raise ConfigError(
            f"{described(job, 'rack')}, but the API server's answer for the node {shown(node)} is not a node: {start}."
        ) from None


def _asked(job: Job, url: str, token: str, context: ssl.SSLContext) -> bytes:
    """Returns the answer of the API server, which is asked again while it is silent or overloaded."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    answer, problem = b"", ""

    def is_answered() -> bool:
        nonlocal answer, problem
        try:
            with opener.open(request, timeout=_CALL_SECS) as response:
                answer = response.read(_MOST_BYTES + 1)
            return True
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise ConfigError(_refusal(job, url, error)) from None
            problem = f"HTTP status {error.code}"
        except (OSError, http.client.HTTPException) as error:
            problem = str(getattr(error, "reason", error))
        return False

    if not poll_until(is_answered, time.monotonic() + job.startup_timeout_secs, _POLL_SECS):
        raise UnreachableError(
            f"gave up after {job.startup_timeout_secs:g}s: {described(job, 'rack')}, but {url} does not answer "
            f"({problem})."
        )
    return answer


def _refusal(job: Job, url: str, error: urllib.error.HTTPError) -> str:
    advice = "check NODE_NAME"
    if error.code in (401, 403):
        advice = "give the pod a service account that may get nodes, as in deploy/kubernetes/overlays/racks"
    return f"{described(job, 'rack')}, but {url} answers with the HTTP status {error.code}: {advice}."

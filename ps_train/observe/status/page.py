"""The status page: one HTML text that asks the chief for data, or a report of an ended job with the data inside.

The sources are in `page_files/`.  The page loads nothing from elsewhere and shows every text of a job only as text.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from ps_train.observe.status.display import Displays

_STYLE, _SCRIPT = ("page.css",), ("text.js", "charts.js", "bars.js", "sections.js", "history.js", "page.js")


def page(displays: Displays, status: Mapping[str, Any] | None = None, history: Mapping[str, Any] | None = None) -> str:
    """Returns the page.

    Args:
      displays: what features show.
      status: the answer of /api/status to show as a report of an ended job; None for a page that asks the server.
      history: the answer of /api/history for the report.
    """
    parts = {"style": _read(*_STYLE), "script": _read(*_SCRIPT)}
    parts["policy"] = _policy("'self'" if status is None else "'none'")
    parts["data"] = "" if status is None else _embedded({"status": status, "history": history or {}})
    parts["displays"] = _embedded(displays.described())
    parts["columns"] = "".join(f'<th scope="col">{column.label}</th>' for column in displays.every("columns"))
    return re.sub("@(policy|style|data|displays|columns|script)@", lambda found: parts[found[1]], _read("page.html"))


def read_report(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the status and the history in a report, as `/api/status` and `/api/history` answer them.

    Raises:
      ValueError: the text is not a report.
    """
    found = re.search(r'<script id="data" type="application/json">(.+?)</script>', text, re.DOTALL)
    if found is None:
        raise ValueError("it has no data")
    data = json.loads(found[1])
    return data["status"], data["history"]


def csp() -> str:
    """Returns the value of the header Content-Security-Policy for the page."""
    return _policy("'self'") + "; frame-ancestors 'none'"


@functools.cache
def _read(*names: str) -> str:
    folder = importlib.resources.files("ps_train.observe.status").joinpath("page_files")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _policy(connect: str) -> str:
    style, script = _hash(_read(*_STYLE)), _hash(_read(*_SCRIPT))
    only = f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:"
    return f"{only}; connect-src {connect}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Any) -> str:
    """Returns JSON without a character that ends a script element or that JavaScript reads as a line's end."""
    return json_of(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def json_of(data: Any) -> str:
    """Returns JSON that every parser reads: in ASCII, with null for numbers that are not finite."""
    return json.dumps(_finite(data), allow_nan=False)


def _finite(data: Any) -> Any:
    """Returns the data with None for numbers that JSON does not know."""
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data

"""A job's status and history with the keys of status_json.py, a server that gives them, and a browser to look."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ps_train.observe.status.page import csp, page
from ps_train.training.tasks.displays import displays

NOW = 1760000000.0
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">\u2028<b>bold</b>&amp;"
"""Text that becomes an element, ends a script, or is a reference, where it is not taken as text."""


def sample_status(workers: int = 2, ps: int = 1, update: str = "async", state: str = "training") -> dict[str, Any]:
    """Returns what /api/status gives for a job in its middle; under sync workers wait, under async they are stale."""
    names = [f"worker:{index}" for index in range(workers)]
    stale = {"mean": 0.9, "p95": 2, "max": 4, "conflict_rate": 0.6, "histogram": {"0": 480, "1": 700, "4": 3}}
    parts = {"input": 0.0004, "pull": 0.0011, "compute": 0.0042, "push": 0.001, "wait": 0.0, "update": 0.0008}
    resources = {"cpu": 0.4, "cores": 8, "rss_bytes": 312e6, "memory_limit_bytes": 25e9}
    resources |= {"sent_bytes_per_sec": 1.5e6, "received_bytes_per_sec": 2.5e6}
    kinds = ["started", *["joined"] * workers, "saved", "fault", "lost", "restarted", "restored", "evaluated"]
    return {
        "version": 1,
        "time": NOW,
        "job": {
            "model": "ps_train.models.digits:Digits",
            "update": update,
            "model_dir": "runs/digits-async",
            "batch_size": 32,
            "num_ps": ps,
            "num_workers": workers,
            "ps_train": "0.1.0",
            "tensorflow": "2.21.0",
        },
        "state": state,
        "cause": None,
        "step": 1200,
        "max_steps": 2000,
        "start_time": NOW - 100,
        "elapsed_secs": 100.0,
        "eta_secs": 66.7,
        "loss": 0.3125,
        "loss_rise": 0.0,
        "steps_per_sec": 12.0,
        "examples_per_sec": 384.0,
        "skipped": 0,
        "dropped": 0,
        "batch_size": None,
        "max_steps_ahead": None,
        "backup_workers": None,
        "local_steps": None,
        "push_codec": None,
        "rounds": None,
        "metrics": {"accuracy": 0.94},
        "slices": {
            "field": "country",
            "rows": [
                {"value": "de", "metrics": {"examples": 700.0, "accuracy": 0.95}},
                {"value": "(others)", "metrics": {"examples": 300.0}},
            ],
        },
        "step_time": {name: {"step": 1150, "secs": 0.0081, **parts, "other": 0.0006} for name in names},
        "staleness": None if update == "sync" else {**stale, "per_worker": dict.fromkeys(names, stale)},
        "waiting": None if update == "async" else {"share": 0.12, "per_worker": dict.fromkeys(names, 0.12)},
        "ps": [
            {"task": f"ps:{index}", "address": f"127.0.0.1:{4000 + index}", "state": "serving", **resources}
            | {"variables": 6, "variable_bytes": 970000, "share": 1 / ps, "measured_network": None}
            for index in range(ps)
        ],
        "workers": [
            {"task": name, "location": f"{name} on host-a, pid {42 + index}", "state": "training", **resources}
            | {
                "heartbeat_age_secs": 0.4,
                "is_chief": index == 0,
                "ps": None,
                "rack": None,
                "is_aggregator": False,
                "steps": 600,
                "steps_per_sec": 6.0,
                "examples_per_sec": 192.0,
            }
            for index, name in enumerate(names)
        ],
        "stream": None,
        "core": None,
        "side_work": {},
        "save": {"count": 2, "last_step": 1000, "hold_secs_mean": 0.004, "hold_secs_max": 0.006, "late": 0},
        "events": [
            {"time": NOW - 100 + index, "kind": kind, "task": names[0], "text": f"{kind}: event {index}"}
            for index, kind in enumerate(kinds)
        ],
        "health": [
            rule("sync_share", "share of synchronisation", "ok", 0.12, 0.2, "share"),
            rule("memory", "memory in use", "warn", 0.95, 0.9, "share", "Give ps:0 more memory.", "ps:0"),
            rule("heartbeat", "oldest heartbeat", "unknown", None, 5.0, "secs"),
        ],
        "log": [{"time": NOW, "level": "warning", "text": "worker:1 on host-b, pid 7 is lost"}],
    }


def rule(name: str, title: str, state: str, value: float | None, limit: float, unit: str, *more: str) -> dict[str, Any]:
    """Returns a rule's judgement; more: the advice and the task."""
    advice, task = (*more, "", "")[:2]
    shown = {"rule": name, "task": task, "title": title, "state": state, "value": value, "limit": limit, "unit": unit}
    return {**shown, "text": f"{title} is {state}", "advice": advice, "page": "watch#health"}


def sample_history(points: int = 100, workers: int = 2, update: str = "async") -> dict[str, Any]:
    """Returns what /api/history gives."""
    return {
        "version": 1,
        "points": [
            {
                "time": NOW - 100 + 100 * (index + 1) / points,
                "step": 12 * (index + 1),
                "loss": 2.3 / (1 + index / 10),
                "steps_per_sec": 12.0,
                "examples_per_sec": 384.0 + index % 7,
                "staleness": None if update == "sync" else 0.9,
                "waiting": None if update == "async" else 0.12,
                "workers": {f"worker:{number}": 10.0 * (number + 1) + index % 5 for number in range(workers)},
            }
            for index in range(points)
        ],
        "evaluations": [
            {"step": step, "metrics": {"loss": 100 / step, "accuracy": step / 1100}} for step in (500, 1000)
        ],
    }


DISPLAYS = displays()


class PageServer:
    """Serves the page and the JSON that `status` and `history` hold; a text is sent as it is.

    Attributes:
      asked: paths in the order in which they were asked for.
    """

    def __init__(self, status: Any, history: Any) -> None:
        self.status, self.history = status, history
        self.asked: list[str] = []
        self.code = 200
        self._server: socketserver.TCPServer | None = None
        self._port = 0
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Serves, again on the same port."""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                found = {"/": page(DISPLAYS), "/api/status": outer.status, "/api/history": outer.history}.get(self.path)
                kind = "text/html" if self.path == "/" else "application/json"
                text = found() if callable(found) else found if isinstance(found, str) else json.dumps(found)
                self.send_response(404 if found is None else 200 if self.path == "/" else outer.code)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Security-Policy", csp())
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            allow_reuse_address, daemon_threads = True, True

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Ends serving: a connection is refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def missing_browser() -> str:
    """Returns the reason why no browser can be started, or ""."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"no {program} on this machine (Debian: apt-get install chromium chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no selenium (pip install selenium)"
    return ""


@contextlib.contextmanager
def started_browser(width: int = 1280, height: int = 900) -> Iterator[Any]:
    """A headless Chromium with a profile of its own; skips the test where there is none."""
    if reason := missing_browser():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = make_driver(width, height, pathlib.Path(profile))
        try:
            yield driver
        finally:
            driver.quit()


def make_driver(width: int, height: int, profile: pathlib.Path) -> Any:
    """Starts a headless Chromium that keeps its console's messages."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "no-first-run",
        "mute-audio",
    ):
        options.add_argument(f"--{argument}")
    options.add_argument("--disable-background-networking")
    options.add_argument(f"--window-size={width},{height}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    )


def text_of(browser: Any, selector: str) -> str:
    """Returns the text of an element."""
    return browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def rows_of(browser: Any, table: str) -> list[list[str]]:
    """Returns the texts of a table's cells by row."""
    rows = "[...document.querySelector(arguments[0]).tBodies[0].rows]"
    return browser.execute_script(f"return {rows}.map((r) => [...r.cells].map((c) => c.innerText))", table)


def facts_of(browser: Any) -> dict[str, str]:
    """Returns the figures of the header by name."""
    script = "return [...document.querySelectorAll('#facts > div')].map((d) => [...d.children].map((c) => c.innerText))"
    return dict(browser.execute_script(script))


def titles_of(browser: Any) -> list[str]:
    """Returns the titles of the charts that are shown."""
    script = "return [...document.querySelectorAll('figure:not([hidden]) h3')].map((h) => h.textContent)"
    return browser.execute_script(script)


def messages_of(browser: Any) -> list[str]:
    """Returns what the console got since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")]

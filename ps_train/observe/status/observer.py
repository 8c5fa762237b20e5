"""The chief's observer: it keeps the board, serves the status page, and writes the report at the end.

    observer = JobObserver(job, cluster, recorder, directory, displays)
    observer.watch(heartbeat)
    observer.start(console)                          # prints the address of the page
    observer.board.progress(progress, counters, saves)
    observer.end("done")                             # writes report.html

A fault of the observer is no fault of the training: it is logged, and training goes on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping

from ps_train.base import side_work
from ps_train.base.console import Console
from ps_train.base.errors import headline
from ps_train.base.http_server import HttpServer, Route
from ps_train.base.lifecycle import Recorder, record_event
from ps_train.base.network_interfaces import is_loopback
from ps_train.base.whole_file import write_whole
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.heartbeat import Heartbeat
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.observe.status import prometheus
from ps_train.observe.status.board import Board
from ps_train.observe.status.display import Displays
from ps_train.observe.status.launcher_events import LauncherEvents
from ps_train.observe.status.page import csp, json_of, page

log = logging.getLogger(__name__)

_REPORT = "report.html"

_END_SECS = 8.0
"""Seconds for which a request waits for the end of the job."""

_PAGE_SECS, _FAREWELL_SECS, _MOST_FAREWELL_SECS = 12.0, 2.5, 6.0
"""Seconds since its last request within which a page counts as open, and seconds for which the server stays for such
pages after the end of the job: they ask for the state every 2 s, later on a busy machine."""


class JobObserver:
    """Observer of one job.

    Args:
      cluster: its tasks.
      recorder: events and log lines.
      directory: the model directory.
      displays: what features show.

    Attributes:
      board: the state of the job.
      report: path of the report.

    Raises:
      ConfigError: the port of the page cannot be opened.
    """

    def __init__(self, job: Job, cluster: Cluster, recorder: Recorder, directory: str, displays: Displays) -> None:
        self._job, self.report = job, os.path.join(directory, _REPORT)
        self.board = Board(job, cluster, recorder, directory, displays)
        self._launcher = LauncherEvents(recorder)
        self._server: HttpServer | None = None
        self._lock, self._is_over = threading.Lock(), False
        self._ended, self._is_told, self._page_at = threading.Event(), threading.Event(), float("-inf")
        if job.status_port is not None and job.status_port >= 0:
            headers = {
                "Cache-Control": "no-store",
                "Content-Security-Policy": csp(),
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
            }
            self._server = HttpServer(job.status_host, job.status_port, self._routes(), headers)

    def start(self, console: Console) -> None:
        """Serves the page and prints its address."""
        side_work.forget()
        side_work.note_dead_threads()
        if self._server is None:
            return
        self._server.start()
        console.line(f"status   {self._server.address}")
        if not is_loopback(self._job.status_host):
            log.warning(
                "%s: every host that reaches this port can read the status page", described(self._job, "status_host")
            )

    def watch(self, heartbeat: Heartbeat) -> None:
        """Takes in from now on whatever the heartbeat reads; the first event is that the chief starts."""
        record_event("started", f"{self._job.model} begins, update {self._job.update}")
        heartbeat.subscribe(self.read_records)
        self.board.tasks.watch(heartbeat.ps_liveness)

    def read_records(self, index: int, items: Mapping[str, str]) -> None:
        """Takes in the records of a ps's store; never raises."""
        try:
            self.board.read_records(index, items)
            self._launcher.read()
        except Exception:
            log.debug("the status page could not take in the records of ps:%d", index, exc_info=True)

    def end(self, state: str, cause: str | None = None) -> None:
        """Takes in the end of the job, and writes the report, once; never raises."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        record_event("ended", state if cause is None else f"{state}: {cause}")
        self.board.end(state, cause)
        self._ended.set()
        try:
            write_whole(self.report, page(self.board.displays, self.board.status(), self.board.history()))
        except Exception as error:
            log.warning("%s could not be written: %s", self.report, headline(error))
            log.debug("the report", exc_info=True)

    def stop(self) -> None:
        """Ends the server, once open pages know that the job has ended."""
        if self._server is not None:
            if self._ended.is_set() and time.monotonic() - self._page_at < _PAGE_SECS:
                time.sleep(_FAREWELL_SECS)
                self._is_told.wait(_MOST_FAREWELL_SECS - _FAREWELL_SECS)
            self._server.stop()

    def _history(self) -> tuple[str, str]:
        self._page_at = time.monotonic()  # nothing else asks for the curves
        return "application/json", json_of(self.board.history())

    def _end(self) -> tuple[str, str]:
        """Answers with the status when the job has ended, or after some seconds."""
        self._page_at = time.monotonic()
        self._ended.wait(_END_SECS)
        return self._status()

    def _status(self) -> tuple[str, str]:
        if self._ended.is_set():
            self._is_told.set()
        return "application/json", json_of(self.board.status())

    def _routes(self) -> dict[str, Route]:
        return {
            "/": lambda: ("text/html; charset=utf-8", page(self.board.displays)),
            "/api/status": self._status,
            "/api/history": self._history,
            "/api/end": self._end,
            "/metrics": lambda: (prometheus.CONTENT_TYPE, prometheus.text(self.board.status(), self.board.displays)),
            "/healthz": lambda: ("text/plain; charset=utf-8", "ok\n"),
        }

"""The bar shows the progress lines of a job, and the metrics of its end and of its status page."""

from __future__ import annotations

import io
import json
import sys
import types

import pytest

from ps_train.base.console import Progress
from ps_train.base.http_server import HttpServer
from ps_train.commands.launch import progress_bar
from ps_train.commands.launch.progress_bar import ProgressBar, notebook_bar


class FakeBar:
    def __init__(self, **given):
        self.given, self.shown, self.is_closed, self.n = given, {}, False, None

    def set_postfix(self, values):
        self.shown = values

    def close(self):
        self.is_closed = True


@pytest.fixture
def made():
    return []


@pytest.fixture
def bar(made):
    return ProgressBar(lambda **given: made.append(FakeBar(**given)) or made[-1])


def line(step, **changes):
    return Progress(
        **{"step": step, "max_steps": 100, "loss": 0.5, "steps_per_sec": 9, "examples_per_sec": 1234, **changes}
    ).text()


def test_the_bar_begins_with_the_first_progress_and_follows_the_steps(bar, made):
    assert not bar.take("ps:0  75.0 KiB in 4 variables or slices") and made == []
    assert bar.take(line(20, staleness=0.5)) and made[0].given["total"] == 100 and made[0].given["initial"] == 20
    assert bar.take(line(40, loss=0.25)) and made[0].n == 40
    assert made[0].shown == {"loss": "0.2500", "examples/s": "1234"}
    assert bar.take(line(30, loss=None)) and made[0].n == 30  # after a recovery
    assert not bar.take("test accuracy 0.9777  auc 0.8000")
    assert made[0].shown == {"loss": "0.2500", "examples/s": "1234", "accuracy": "0.9777", "auc": "0.8000"}
    bar.close()
    assert made[0].is_closed and len(made) == 1


def test_metrics_of_evaluations_come_from_the_status_page(bar, made):
    status = json.dumps({"metrics": {"loss": 0.4, "auc": 0.7, "bad": None}})
    server = HttpServer("127.0.0.1", 0, {"/api/status": lambda: ("application/json", status)}, {})
    server.start()
    try:
        assert not bar.take(f"status   {server.address}")
        bar.take(line(20))
    finally:
        server.stop()
    assert made[0].shown == {"loss": "0.5000", "examples/s": "1234", "eval loss": "0.4000", "auc": "0.7000"}
    bar._asked = 0.0
    assert bar.take(line(40))  # the page has gone


def test_a_line_of_progress_is_read_back():
    for given in (Progress(5, 10, 0.25, 3.0, 96.0), Progress(5, None, None, 3.0, 96.0, waiting=0.5)):
        found = Progress.read(given.text())
        assert found == Progress(given.step, given.max_steps, given.loss, 3.0, 96.0)
    assert Progress.read(Progress(1, 2, float("nan"), 3.0, 96.0).text()).loss != 0.0
    for text in ("", "step 5", "step by step  loss of time", "loss 0.5  step 5", "trained 5 steps"):
        assert Progress.read(text) is None


@pytest.mark.parametrize("has_tqdm", [True, False])
@pytest.mark.parametrize("has_kernel", [True, False])
def test_only_the_kernel_of_a_notebook_with_tqdm_gets_a_bar(monkeypatch, has_tqdm, has_kernel):
    tqdm = types.SimpleNamespace(tqdm=FakeBar) if has_tqdm else None
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm") if has_tqdm else None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm)
    assert notebook_bar() is None
    shell = types.SimpleNamespace(**({"kernel": object()} if has_kernel else {}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert (notebook_bar() is not None) == (has_tqdm and has_kernel)


def test_tqdm_itself_takes_what_the_bar_gives_it(monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    output = io.StringIO()
    bar = ProgressBar(lambda **given: tqdm.tqdm(file=output, mininterval=0, **given))
    for step in (20, 40, 100):
        bar.take(line(step))
    bar.close()
    assert "100/100" in output.getvalue() and "loss=0.5" in output.getvalue()
    assert progress_bar.LOG_SECS < 2.0

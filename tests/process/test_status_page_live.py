"""The status page of real jobs in a real browser."""

from __future__ import annotations

import os
import pathlib
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.long import long
from tests.support.machine.proc import task_of
from tests.support.machine.processes import Process, Processes, eventually
from tests.support.status.page import facts_of, messages_of, rows_of, started_browser, text_of, titles_of

pytestmark = pytest.mark.timeout(300)

DIGITS = "--model=ps_train.models.digits:Digits"
COMMON = ["--num_ps=1", "--num_workers=2", "--log_secs=0.2", "--status_port=0"]
MODES = {
    "async": (["--update=async"], "Staleness of gradients"),
    "sync": (["--update=sync"], "Share of waiting"),
    "bounded": (["--update=bounded", "--max_steps_ahead=2"], "Staleness of gradients"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as driver:
        yield driver


def address_of(run: Process) -> str:
    """The page's address, as the chief prints it."""
    run.wait_for("status   http://")
    found = re.search(r"status   (http://127\.0\.0\.1:\d+/)", run.output)
    assert found is not None, run.output
    return found[1]


def step_of(browser: Any) -> int:
    """The step that the page shows."""
    found = re.match(r"[\d,]+", facts_of(browser).get("Step", ""))
    return int(found[0].replace(",", "")) if found else 0


def show_report(browser: Any, model_dir: pathlib.Path) -> None:
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get((model_dir / "report.html").as_uri())


@pytest.mark.parametrize("mode", [long("async"), long("sync"), long("bounded")])
def test_the_page_shows_a_live_job_and_the_report_its_end(processes: Processes, browser: Any, mode: str) -> None:
    flags, chart = MODES[mode]
    model_dir = processes.directory / "model"
    # The job ends by a signal when the page has been looked at, however quick the machine is.
    run = processes.run(DIGITS, *COMMON, *flags, "--max_steps=1000000", f"--model_dir={model_dir}")
    browser.get(address_of(run))
    eventually(lambda: "training" in text_of(browser, "#state-text"), 60, "the state of training")
    first = eventually(lambda: step_of(browser), 20, "a step")
    eventually(lambda: step_of(browser) > first, 20, "a later step")
    eventually(lambda: {"Loss", "Examples/s", "Examples/s by worker", chart} <= set(titles_of(browser)), 30, "charts")
    assert facts_of(browser)["Mode"] == mode and text_of(browser, "h1") == "ps_train.models.digits:Digits"
    assert [row[0] for row in rows_of(browser, "#workers-table")] == ["worker:0 (chief)", "worker:1"]
    assert all("training" in row[1] for row in rows_of(browser, "#workers-table"))
    (ps,) = rows_of(browser, "#ps-table")
    assert ps[0] == "ps:0" and "serving" in ps[1] and ps[6].startswith("100 %")
    eventually(lambda: "MB" in rows_of(browser, "#ps-table")[0][3], 20, "the memory of the ps")
    assert len(rows_of(browser, "#health-table")[0]) == 5
    assert any("joined" in row[1] for row in rows_of(browser, "#events-table"))
    assert messages_of(browser) == []
    run.send(signal.SIGTERM)
    run.wait(60)
    eventually(lambda: text_of(browser, "#state-text") == "stopped", 20, "the end on the open page")
    assert not browser.execute_script("return document.body.classList.contains('silent')")
    show_report(browser, model_dir)
    assert text_of(browser, "#state-text") == "stopped"
    assert re.fullmatch(r"step [\d,]+", facts_of(browser)["Last save"]), "the last one, which the signal caused"
    assert "report of a job that has ended" in text_of(browser, "#connection")
    assert step_of(browser) > first and "Loss" in titles_of(browser)
    assert messages_of(browser) == []


@pytest.mark.long
def test_a_finished_job_leaves_a_report(processes: Processes, browser: Any) -> None:
    model_dir = processes.directory / "model"
    run = processes.run(DIGITS, *COMMON, "--max_steps=300", f"--model_dir={model_dir}")
    assert run.wait(90) == 0, run.output
    show_report(browser, model_dir)
    assert text_of(browser, "#state-text") == "done"
    assert facts_of(browser)["Step"] == "300 of 300" and facts_of(browser)["Time left (ETA)"] == "ended"
    assert any("ended" in row[1] for row in rows_of(browser, "#events-table"))
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert messages_of(browser) == []


@pytest.mark.long
def test_a_killed_ps_is_seen_and_its_return_is_followed(processes: Processes, browser: Any) -> None:
    model_dir = processes.directory / "model"
    run = processes.run(
        DIGITS, *COMMON, "--max_restarts=2", "--save_steps=100", "--max_steps=1000000", "--heartbeat_timeout_secs=3",
        f"--model_dir={model_dir}",
    )  # fmt: skip
    browser.get(address_of(run))
    eventually(lambda: step_of(browser) > 150, 60, "some steps")
    seen: set[str] = set()

    def is_seen() -> bool:
        """True when the page has said that the ps is gone; it returns within seconds, so every look counts."""
        seen.update([text_of(browser, "#state-text"), rows_of(browser, "#ps-table")[0][1].split()[-1]])
        seen.update(row[1].split()[-1] for row in rows_of(browser, "#events-table") if row[2] == "ps:0")
        return bool(seen & {"silent", "recovering"}) and bool(seen & {"lost", "restarted"})

    os.kill(task_of(run.pid, "ps:0"), signal.SIGKILL)
    eventually(is_seen, 40, "the loss of the ps")

    def is_back() -> bool:
        kinds = {row[1].split()[-1] for row in rows_of(browser, "#events-table")}
        return "serving" in rows_of(browser, "#ps-table")[0][1] and {"restarted", "restored"} <= kinds

    eventually(is_back, 60, "the return of the ps")
    eventually(lambda: text_of(browser, "#state-text") == "training", 30, "training again")
    step = step_of(browser)
    eventually(lambda: step_of(browser) > step, 30, "further steps")
    assert messages_of(browser) == [], "the page was served all the time"
    run.send(signal.SIGTERM)
    run.wait(60)
    show_report(browser, model_dir)
    assert text_of(browser, "#state-text") == "stopped"
    assert any("restored" in row[1] for row in rows_of(browser, "#events-table"))

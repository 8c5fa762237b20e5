"""The status page in a real browser, with a server that gives made JSON."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ps_train.observe.status.page import page
from ps_train.observe.status.status_json import HISTORY, STATUS
from tests.support.long import long
from tests.support.processes import eventually
from tests.support.status_page import (
    DISPLAYS,
    HOSTILE,
    PageServer,
    facts_of,
    messages_of,
    rows_of,
    sample_history,
    sample_status,
    started_browser,
    text_of,
    titles_of,
)

pytestmark = pytest.mark.timeout(300)

DASH = "\u2013"
CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 :
  ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
const ground = (node) => { for (; node; node = node.parentElement) {
  const color = parse(getComputedStyle(node).backgroundColor);
  if (color.length === 3) return color; } return [255, 255, 255]; };
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!own || !node.getClientRects().length || node.closest(".hidden, script, noscript, svg title, .on")) continue;
  const style = getComputedStyle(node), color = node.closest("svg") ? style.fill : style.color;
  const [a, b] = [light(parse(color)), light(ground(node))].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), node.tagName + "." + node.getAttribute("class"), node.textContent.slice(0, 40)]);
}
return found;
"""
"""Contrast of each visible text to its ground, as WCAG 2 defines it."""


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Any]:
    with started_browser() as driver:
        yield driver


@pytest.fixture
def browser(shared_browser: Any) -> Iterator[Any]:
    yield shared_browser
    shared_browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    shared_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    shared_browser.get("about:blank")
    shared_browser.get_log("browser")


@contextlib.contextmanager
def served(browser: Any, status: Any, history: Any) -> Iterator[PageServer]:
    """The page in the browser, with its first answers shown."""
    browser.get_log("browser")
    server = PageServer(status, history)
    try:
        browser.get(server.address)
        eventually(lambda: browser.execute_script("return last.status && last.history"), 40, "the first answers")
        yield server
    finally:
        server.stop()


def test_every_section_is_filled_and_nothing_else_is_asked_for(browser: Any) -> None:
    with served(browser, sample_status(2, 1, "bounded"), sample_history(100, 2, "bounded")) as server:
        assert text_of(browser, "h1") == "ps_train.models.digits:Digits"
        assert text_of(browser, "#state-text") == "training"
        facts = facts_of(browser)
        assert (
            facts["Mode"] == "bounded" and facts["Step"] == "1,200 of 2,000" and facts["Time left (ETA)"] == "1 min 6 s"
        )
        assert facts["Loss"] == "0.313" and facts["Examples/s"] == "384" and facts["accuracy"] == "0.94"
        assert browser.execute_script("return document.querySelector('progress').position") == 0.6
        assert titles_of(browser) == [
            *("Loss", "Examples/s", "Examples/s by worker", "Staleness, mean", "Share of waiting over time"),
            *("Evaluation: loss", "Evaluation: accuracy"),
            *("Time of a step by part", "Share of waiting", "Staleness of gradients", "Timeline"),
        ]
        (ps,) = rows_of(browser, "#ps-table")
        assert ps[0] == "ps:0" and "serving" in ps[1] and ps[2:6] == ["0.4", "312 MB of 25 GB", "1.5 MB", "2.5 MB"]
        assert ps[6] == "100 % (970 kB)"
        worker = rows_of(browser, "#workers-table")[1]
        assert worker[0] == "worker:1" and "training" in worker[1] and worker[2] == "400 ms ago"
        health = rows_of(browser, "#health-table")
        assert [row[1][1:].strip() for row in health] == ["warning", "not known", "ok"]
        assert health[0][0] == "memory in use (ps:0)" and health[0][2:4] == ["95 %", "90 %"]
        assert "Give ps:0 more memory." in health[0][4]
        kinds = {row[1].split()[-1] for row in rows_of(browser, "#events-table")}
        assert {"joined", "lost", "restarted", "saved", "restored", "fault"} <= kinds
        assert "worker:1 on host-b, pid 7 is lost" in rows_of(browser, "#log-table")[0][2]
        assert set(server.asked) == {"/", "/api/status", "/api/history"}
    assert messages_of(browser) == []


def test_warnings_and_their_advice_are_seen_and_the_loss_too_on_every_first_screen(browser: Any) -> None:
    bottom = "const box = document.querySelector(arguments[0]).getBoundingClientRect(); return [box.right, box.bottom]"
    with served(browser, sample_status(2, 1, "bounded"), sample_history(50, 2, "bounded")):
        for width, height in ((1280, 900), (390, 844)):
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 400}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            eventually(lambda w=width: browser.execute_script("return innerWidth") == w, 20)
            assert "Give ps:0 more memory." in browser.find_element("id", "warnings").text
            for selector in ("#warnings p", "figure[data-key=loss] svg"):
                right, low = browser.execute_script(bottom, selector)
                assert right <= width and low <= height + 30, (selector, width, low)
        rules = browser.find_element("id", "health-rules")
        assert not rules.is_displayed()
        browser.find_element("id", "health-all").click()
        assert rules.is_displayed()


def test_a_lost_worker_has_no_values_and_a_gap_in_its_curve(browser: Any) -> None:
    status, history = sample_status(3, 1), sample_history(100, 3)
    unknown = ("cpu", "rss_bytes", "sent_bytes_per_sec", "received_bytes_per_sec", "steps_per_sec", "examples_per_sec")
    status["workers"][2] |= {"state": "lost", "heartbeat_age_secs": 60.0, **dict.fromkeys(unknown)}
    for point in history["points"][40:60]:
        del point["workers"]["worker:2"]
    for point in history["points"][80:]:
        point["time"] += 60  # no progress for a minute
    pieces = "return document.querySelector(`figure[data-key=by-worker] .drawing path.s${arguments[0]}`)"
    pieces += ".getAttribute('d').split('M').length - 1"
    with served(browser, status, history):
        lost = rows_of(browser, "#workers-table")[2]
        assert "lost" in lost[1] and all(DASH in cell for cell in lost[3:9])
        assert [browser.execute_script(pieces, index) for index in (0, 2)] == [2, 3]
        summary = text_of(browser, "figure[data-key=by-worker] .readout")
        assert "worker:0: 14, between 10 and 14" in summary


def test_bars_of_staleness_are_logarithmic_and_their_labels_do_not_overprint(browser: Any) -> None:
    status = sample_status()
    status["staleness"]["histogram"] = {**{str(value): 1000 - 50 * value for value in range(20)}, "165": 1}
    with served(browser, status, sample_history()):
        rows = (
            "return [...document.querySelectorAll('figure[data-key=staleness] rect title')].map((t) => t.textContent)"
        )
        bars = browser.execute_script(rows)
        assert bars[:3] == ["0: 1,000", "1: 950", "2: 900"] and bars[-1] == "129" + DASH + "165: 1"
        labels = browser.execute_script(
            "return [...document.querySelectorAll('figure[data-key=staleness] svg > text')]"
            ".map((t) => t.getBoundingClientRect()).map((b) => [b.top, b.left, b.right])"
        )
        for line in {top for top, _, _ in labels}:
            beside = sorted(box[1:] for box in labels if box[0] == line)
            assert all(before[1] < after[0] for before, after in itertools.pairwise(beside))


def test_a_ps_and_a_worker_of_one_process_are_one_row_and_racks_are_named(browser: Any) -> None:
    status = sample_status(2, 2, "sync")
    for index, worker in enumerate(status["workers"]):
        worker |= {"ps": f"ps:{index}", "rack": "a", "is_aggregator": index == 1}
    with served(browser, status, sample_history(50, 2, "sync")) as server:
        assert not browser.find_element("id", "ps").is_displayed()
        rows = rows_of(browser, "#workers-table")
        assert [row[0] for row in rows] == ["worker:0 (chief), ps:0", "worker:1, ps:1"]
        assert [row[9:12] for row in rows] == [["a", "50 % (970 kB)", "6"], ["a, aggregator", "50 % (970 kB)", "6"]]
        server.status = sample_status(2, 2, "sync")
        eventually(lambda: browser.find_element("id", "ps").is_displayed(), 40, "the ps of another job")
        heads = browser.find_elements("css selector", "#workers-table thead th")
        assert [head.text for head in heads if head.is_displayed()][-2:] == ["Received/s", "Location"]


def test_the_log_does_not_repeat_the_events_and_words_are_explained(browser: Any) -> None:
    status = sample_status()
    status["log"] = [{"time": status["events"][-1]["time"], "level": "info", "text": status["events"][-1]["text"]}]
    with served(browser, status, sample_history()):
        assert rows_of(browser, "#log-table") == [["none yet"]]
        names = "[...document.querySelectorAll('#facts dt, main th')].map((n) => [n.textContent, n.title])"
        found = dict(browser.execute_script(f"return {names}"))
        assert "updates wait" in found["Hold of a save"] and "variables" in found["Part of the plan"]
        assert "Backup workers" not in facts_of(browser), "it does not apply to this job"


@pytest.mark.parametrize(
    ("update", "shown", "hidden"), [("async", "Staleness", "waiting"), ("sync", "waiting", "Staleness")]
)
def test_a_mode_shows_the_charts_that_it_has(browser: Any, update: str, shown: str, hidden: str) -> None:
    with served(browser, sample_status(2, 1, update), sample_history(50, 2, update)):
        titles = " ".join(titles_of(browser))
        assert shown in titles and hidden not in titles
        assert (browser.execute_script("return document.getElementById('histogram-option').hidden")) == (
            update == "sync"
        )


def test_the_page_follows_the_job(browser: Any) -> None:
    with served(browser, sample_status(), sample_history()) as server:
        changed = sample_status(3, 2)
        changed.update(step=1500, loss=0.2, eta_secs=None, state="recovering")
        changed["ps"][1].update(state="silent", cpu=None)
        changed["workers"][2].update(state="lost", heartbeat_age_secs=75.0)
        changed["log"].append({"time": 1760000001.0, "level": "warning", "text": "the newest line"})
        changed["slices"]["rows"][1]["metrics"]["auc"] = 0.75
        history = sample_history(150, 3)
        server.status, server.history = changed, history
        eventually(lambda: "recovering" in text_of(browser, "#state"), 40, "the new state")
        facts = facts_of(browser)
        assert facts["Step"] == "1,500 of 2,000" and facts["Loss"] == "0.2"
        assert facts["Time left (ETA)"].startswith(DASH)
        assert "silent" in rows_of(browser, "#ps-table")[1][1]
        assert "lost" in rows_of(browser, "#workers-table")[2][1]
        assert rows_of(browser, "#workers-table")[2][2] == "1 min 15 s ago"
        assert "1 lost (worker:2)" in text_of(browser, "#workers-summary")
        assert rows_of(browser, "#log-table")[0][2] == "the newest line"
        assert text_of(browser, "#slices-title") == "Metrics by country"
        assert text_of(browser, "#slices-table thead") == "countryexamplesaccuracyauc"
        assert rows_of(browser, "#slices-table")[1][:2] == ["(others)", "300"]
        assert rows_of(browser, "#slices-table")[1][3] == "0.75"
        eventually(lambda: "worker:2" in text_of(browser, "#curve-charts"), 40, "the curve of the new worker")
        assert "75 %" in browser.title and "recovering" in browser.title
        assert messages_of(browser) == []


def test_a_job_that_does_not_answer_is_said_and_its_return_is_seen(browser: Any) -> None:
    with served(browser, sample_status(), sample_history()) as server:
        server.stop()
        eventually(lambda: "No answer since" in text_of(browser, "#connection"), 40, "the loss is shown")
        assert "training" in text_of(browser, "#state-text") and "last known state" in text_of(browser, "#connection")
        assert browser.execute_script("return document.body.classList.contains('silent')")
        server.status = {**sample_status(), "step": 1300}
        server.start()
        eventually(lambda: text_of(browser, "#connection") == "", 40, "the return is shown")
        assert facts_of(browser)["Step"] == "1,300 of 2,000"
        assert not browser.execute_script("return document.body.classList.contains('silent')")


@pytest.mark.parametrize(
    ("code", "text", "reason"), [long(503, "{}", "status 503"), (200, '{"version": 1, ', "not complete")]
)
def test_an_answer_that_is_none_is_said(browser: Any, code: int, text: str, reason: str) -> None:
    with served(browser, sample_status(), sample_history()) as server:
        server.code, server.status = code, text
        eventually(lambda: reason in text_of(browser, "#connection"), 40, "the reason")
        assert facts_of(browser)["Step"] == "1,200 of 2,000"
        server.code, server.status = 200, sample_status()
        browser.execute_script("window.dispatchEvent(new Event('focus'))")  # does not wait for the next attempt
        eventually(lambda: text_of(browser, "#connection") == "", 40, "the return")


@pytest.mark.long
def test_it_asks_less_often_while_nothing_answers_and_not_while_nobody_looks(browser: Any) -> None:
    hide = "const hidden = arguments[0];"
    hide += "Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});"
    hide += "document.dispatchEvent(new Event('visibilitychange'))"
    with served(browser, sample_status(), sample_history()) as server:
        browser.execute_script(hide, True)
        asked = len(server.asked) + 1  # one may be under way
        with pytest.raises(pytest.fail.Exception):
            eventually(lambda: len(server.asked) > asked, 5)
        browser.execute_script(hide, False)
        eventually(lambda: len(server.asked) > asked, 40, "a question at once")
        server.code = 503
        eventually(lambda: "503" in text_of(browser, "#connection"), 40)
        asked = server.asked.count("/api/status")
        with pytest.raises(pytest.fail.Exception):
            eventually(lambda: server.asked.count("/api/status") > asked + 2, 7.5)


@pytest.mark.parametrize("state", [long("done"), long("stopped"), "failed"])
def test_an_end_stays_when_the_server_goes(browser: Any, state: str) -> None:
    ended = {
        **sample_status(state=state),
        "step": 2000,
        "eta_secs": 0.0,
        "cause": "ValueError: no" if state == "failed" else None,
    }
    with served(browser, ended, sample_history()) as server:
        assert text_of(browser, "#state-text") == state
        assert facts_of(browser)["Time left (ETA)"] == "ended"
        assert text_of(browser, "#cause") == (ended["cause"] or "")
        server.stop()
        eventually(lambda: "has ended" in text_of(browser, "#connection"), 40, "the end is shown")
        assert text_of(browser, "#state-text") == state
        assert not browser.execute_script("return document.body.classList.contains('silent')")


@pytest.mark.long
def test_values_that_are_not_known_are_dashes(browser: Any) -> None:
    def nothing(value: Any) -> Any:
        return {key: nothing(v) for key, v in value.items()} if isinstance(value, dict) else None

    status = {
        **nothing(sample_status()),
        "state": "starting",
        "ps": [],
        "workers": [],
        "events": [],
        "health": [],
        "log": [],
    }
    status |= {"staleness": None, "waiting": None, "step_time": {}, "metrics": {}, "time": 1760000000.0}
    status["workers"] = [{**nothing(sample_status()["workers"][0]), "task": "worker:0", "state": "absent"}]
    with served(browser, status, {"version": 1, "points": [], "evaluations": []}) as server:
        assert text_of(browser, "#state-text") == "starting"
        assert DASH in facts_of(browser)["Loss"] and "not known" in text_of(browser, "#facts")
        assert "absent" in rows_of(browser, "#workers-table")[0][1]
        assert rows_of(browser, "#ps-table") == [["none yet"]]
        assert (
            "null" not in browser.execute_script("return document.body.innerText") and "NaN" not in browser.page_source
        )
        assert titles_of(browser) == []
        server.status, server.history = sample_status(), sample_history()
        eventually(lambda: "Loss" in titles_of(browser), 40, "the first curve")
        assert len(rows_of(browser, "#ps-table")[0]) == 9
        server.stop()
        assert not [m for m in messages_of(browser) if "ERR_" not in m]


def hostile(value: Any) -> Any:
    """The data with every text that a job brings made hostile."""
    known = {"state", "unit", "update", "kind", "level", "task"}
    if isinstance(value, dict):
        return {key: v if key in known else hostile(v) for key, v in value.items()}
    return [hostile(v) for v in value] if isinstance(value, list) else HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("is_report", [False, True])
def test_hostile_texts_are_only_text(browser: Any, tmp_path: pathlib.Path, is_report: bool) -> None:
    status = hostile(sample_status()) | {"cause": HOSTILE, "metrics": {HOSTILE: 0.5}, "state": "failed"}
    status["staleness"]["per_worker"] = {HOSTILE: status["staleness"]["per_worker"]["worker:0"]}
    status["step_time"] = {HOSTILE: status["step_time"]["worker:0"]}
    status["events"].append({**status["events"][0], "kind": HOSTILE})
    history = sample_history()
    for point in history["points"]:
        point["workers"] = {HOSTILE: 5.0}
    history["evaluations"][0]["metrics"] = {HOSTILE: 0.5}
    with contextlib.ExitStack() as stack:
        if is_report:
            (tmp_path / "report.html").write_text(page(DISPLAYS, status, history), encoding="utf-8")
            browser.get_log("browser")
            browser.get((tmp_path / "report.html").as_uri())
        else:
            stack.enter_context(served(browser, status, history))
        assert text_of(browser, "h1") == HOSTILE
        assert rows_of(browser, "#log-table")[0][2].replace("\u2028", "\n").split("\n")[0] == HOSTILE.split("\u2028")[0]
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        assert browser.execute_script("return document.querySelectorAll('img, b, body script').length") == 3
        assert HOSTILE in browser.execute_script("return document.querySelector('#metric-charts').textContent")
        assert browser.title.endswith(HOSTILE) and browser.title != "broken"
        assert messages_of(browser) == []


def test_a_report_works_from_a_file_without_a_network(browser: Any, tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(page(DISPLAYS, sample_status(2, 1, state="done"), sample_history()), encoding="utf-8")
    browser.get_log("browser")
    browser.get(report.as_uri())
    assert text_of(browser, "#state-text") == "done"
    assert "report of a job that has ended" in text_of(browser, "#connection")
    assert {"Loss", "Timeline", "Staleness of gradients"} <= set(titles_of(browser))
    assert len(rows_of(browser, "#workers-table")) == 2
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert messages_of(browser) == []


@pytest.mark.parametrize("scheme", ["light", long("dark")])
def test_texts_have_contrast(browser: Any, scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    with served(browser, sample_status(2, 1, "bounded"), sample_history(50, 2, "bounded")) as server:
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        server.stop()
        eventually(lambda: "No answer" in text_of(browser, "#connection"), 40)
        found = browser.execute_script(CONTRASTS)
        assert len(found) > 200
        assert [entry for entry in found if entry[0] < 4.5] == []
        colors = "return [...Array(8).keys()].map((at) => getComputedStyle(document.body).getPropertyValue(`--c${at}`))"
        assert len(set(browser.execute_script(colors))) == 8


@pytest.mark.parametrize("width", [320, long(768)])
def test_a_narrow_screen_scrolls_only_down(browser: Any, width: int) -> None:
    screen = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    status = sample_status(64, 16, "bounded")
    status["job"]["model"] = "a" * 200 + ":Model"
    status["log"][0]["text"] = "/a/long/path" * 30
    status["cause"] = "x" * 300
    with served(browser, status, sample_history(100, 64, "bounded")):
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        size = browser.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth, document.body.scrollWidth]"
        )
        assert max(size) <= width
        wide = (
            "[...document.querySelectorAll('figure svg')].filter((s) => s.getBoundingClientRect().right > innerWidth)"
        )
        assert browser.execute_script(f"return {wide}.length") == 0


def test_what_a_screen_reader_needs_is_there(browser: Any) -> None:
    with served(browser, sample_status(2, 1, "bounded"), sample_history(50, 2, "bounded")):
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        count = "return document.querySelectorAll(arguments[0]).length"
        for selector in ("html[lang]", "header", "nav[aria-label]", "main", "footer", "h1", "[role=status]"):
            assert browser.execute_script(count, selector) == 1, selector
        assert browser.execute_script(count, "[aria-live]") == 1, "only the state is read out by itself"
        levels = browser.execute_script(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))"
        )
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        tables = browser.execute_script(
            "return [...document.querySelectorAll('table')].map((t) => ["
            " t.caption.textContent.trim().length > 0, t.tHead.rows[0].cells.length,"
            " [...t.querySelectorAll('th')].every((h) => h.scope),"
            " [...t.tBodies[0].rows].every((r) => r.cells[0].tagName === 'TH')])"
        )
        assert len(tables) == 7 + len(titles_of(browser))
        assert all(caption and columns > 1 and scope and heads for caption, columns, scope, heads in tables)
        names = browser.execute_script(
            "return [...document.querySelectorAll('figure svg')].filter((s) => !s.hasAttribute('aria-hidden'))"
            ".map((s) => [s.getAttribute('role'), s.getAttribute('aria-label')])"
        )
        assert all(role == "img" and ": " in label for role, label in names) and len(names) == len(titles_of(browser))
        unnamed = "return [...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length"
        assert browser.execute_script(unnamed) == 0
        blocked = (
            "return [...document.querySelectorAll('*')].filter((one) => one.scrollHeight > one.clientHeight + 2 &&"
        )
        blocked += " getComputedStyle(one).overflowY === 'auto' && one.tabIndex < 0).length"
        assert browser.execute_script(blocked) == 0, "what scrolls takes the focus"


@pytest.mark.long
def test_the_table_behind_a_chart_opens_by_the_keyboard_and_follows(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    with served(browser, sample_status(), sample_history(100, 2)) as server:
        summary = browser.find_element("css selector", "#curve-charts figure:nth-of-type(3) summary")
        assert summary.text == "Table: Examples/s by worker"
        summary.send_keys(Keys.ENTER)
        table = "#curve-charts figure:nth-of-type(3) table"
        eventually(lambda: len(rows_of(browser, table)) == 100, 40, "the rows")
        assert rows_of(browser, table)[-1] == ["1 min 40 s", "14", "24"]
        server.history = sample_history(150, 2)
        eventually(lambda: len(rows_of(browser, table)) == 75, 40, "every second point of the longer history")
        labels = (
            "return [...document.querySelectorAll('figure[data-key=loss] .drawing text')].map((t) => t.textContent)"
        )
        assert "0.2" not in browser.execute_script(labels)
        browser.find_element("id", "logarithmic").send_keys(Keys.SPACE)
        assert "0.2" in browser.execute_script(labels)
        browser.find_element("id", "over-time").send_keys(Keys.SPACE)
        assert "1 min" in browser.execute_script(labels)


@pytest.mark.long
def test_a_histogram_is_of_all_workers_or_of_one(browser: Any) -> None:
    from selenium.webdriver.support.select import Select

    status = sample_status()
    status["staleness"]["per_worker"]["worker:1"] = {
        "mean": 150,
        "p95": 200,
        "max": 299,
        "conflict_rate": 1.0,
        "histogram": {str(value): 1 for value in range(300)},
    }
    with served(browser, status, sample_history()):
        bars = "return document.querySelectorAll('figure[data-key=staleness] svg rect').length"
        assert browser.execute_script(bars) == 5
        Select(browser.find_element("id", "histogram-of")).select_by_value("worker:1")
        eventually(lambda: 5 < browser.execute_script(bars) <= 40, 40, "bars of several values each")
        label = browser.execute_script("return document.querySelector('figure[data-key=staleness] svg').ariaLabel")
        assert "worker:1: mean 150" in label


def test_a_large_job_is_shown_quickly(browser: Any) -> None:
    with served(browser, sample_status(64, 16, "bounded"), sample_history(1000, 64, "bounded")):
        names = text_of(browser, "figure[data-key=by-worker]")
        assert "worker:0" in names and "worker:63" in names and "each worker" in names
        took = "const start = performance.now(); showStatus(last.status); showHistory(last.history);"
        took += "return performance.now() - start"
        assert min(browser.execute_script(took) for _ in range(3)) < 1000
        assert browser.execute_script("return document.querySelectorAll('*').length") < 6000
        assert len(rows_of(browser, "#workers-table")) == 64 and len(rows_of(browser, "#ps-table")) == 16


def test_the_made_json_has_the_documented_keys() -> None:
    for documented, made in ((STATUS, sample_status(update="bounded")), (HISTORY, sample_history())):
        assert documented.keys() == made.keys()
    for name in ("job", "save"):
        assert STATUS[name].keys() == sample_status()[name].keys()
    for name in ("ps", "workers", "events", "health", "log"):
        assert STATUS[name][0].keys() == sample_status()[name][0].keys()
    assert HISTORY["points"][0].keys() == sample_history()["points"][0].keys()

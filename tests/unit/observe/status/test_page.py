from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import math
import re

import pytest

from ps_train.observe.status.display import Displays
from ps_train.observe.status.page import csp, page
from tests.support.status.page import HOSTILE, sample_history, sample_status


class Elements(html.parser.HTMLParser):
    """Elements of a page with their attributes, and the text of each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.found and self.found[-1][0] in ("script", "style"):
            tag, attributes = self.found[-1]
            self.raw.append((tag, attributes, data))

    def handle_endtag(self, tag):
        self.found.append((f"/{tag}", {}))

    def embedded(self):
        return [text for tag, attributes, text in self.raw if attributes.get("id") == "data"]


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


REPORT = page(Displays(), sample_status(), sample_history())


@pytest.mark.parametrize("text", [page(Displays()), REPORT], ids=["live", "report"])
def test_the_page_loads_nothing_from_elsewhere(text):
    elements = Elements(text)
    for tag, attributes in elements.found:
        assert "src" not in attributes and not any(name.startswith("on") or name == "style" for name in attributes)
        if tag in ("a", "link"):
            assert attributes["href"].startswith(("#", "data:"))
    found = set(re.findall(r"\w+://[^\s\"'<>]+", text))
    assert found <= {"http://www.w3.org/2000/svg"}, "names of namespaces are not loaded"
    assert "@import" not in text and "url(" not in text


def test_the_page_has_no_marker_left_and_keeps_one_script():
    scripts = [attributes.get("type") for tag, attributes in Elements(page(Displays())).found if tag == "script"]
    assert scripts == ["application/json", "application/json", None]
    assert not re.search("@(policy|style|data|displays|columns|script)@", REPORT)


@pytest.mark.parametrize("text", [page(Displays()), REPORT], ids=["live", "report"])
def test_the_policies_allow_the_script_and_the_style_of_the_page_and_nothing_else(text):
    elements = Elements(text)
    (script,) = [text for tag, attributes, text in elements.raw if tag == "script" and "type" not in attributes]
    (style,) = [text for tag, _, text in elements.raw if tag == "style"]
    (own,) = [a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    for policy in (csp(), own):
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules["default-src"] == "'none'"
        assert (rules["script-src"], rules["style-src"]) == (hash_of(script), hash_of(style))
        assert "unsafe" not in policy and "*" not in policy
    assert dict(rule.split(" ", 1) for rule in csp().split("; "))["connect-src"] == "'self'"
    assert ("connect-src 'none'" in own) == (text == REPORT)


def test_a_live_page_has_no_data_and_a_report_has_it():
    assert Elements(page(Displays())).embedded() == []
    (text,) = Elements(REPORT).embedded()
    assert json.loads(text) == {"status": sample_status(), "history": sample_history()}


def test_hostile_texts_stay_inside_of_the_data():
    status = sample_status()
    status["job"]["model"] = status["cause"] = status["log"][0]["text"] = status["events"][0]["text"] = HOSTILE
    status["metrics"] = {HOSTILE: 1.0, "@script@ \\g<0> \\1": 2.0}
    text = page(Displays(), status, {"points": [], "evaluations": [{"step": 1, "metrics": {"<!--<script>": 0.5}}]})
    elements, harmless = Elements(text), Elements(REPORT)
    assert [tag for tag, _ in elements.found] == [tag for tag, _ in harmless.found]
    (data,) = elements.embedded()
    assert not set("<>&\u2028") & set(data)
    assert json.loads(data)["status"] == status


def test_numbers_that_json_does_not_know_become_null():
    status = {**sample_status(), "loss": math.nan, "steps_per_sec": -math.inf, "metrics": {"a": [math.inf, 1.5]}}
    (data,) = Elements(page(Displays(), status)).embedded()
    found = json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (found["status"]["loss"], found["status"]["steps_per_sec"]) == (None, None)
    assert found["status"]["metrics"] == {"a": [None, 1.5]}
    assert found["history"] == {}

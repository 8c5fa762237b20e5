"""Findings are one line each, and the exit code follows from them."""

from __future__ import annotations

import io

from ps_train.base.console import Console
from ps_train.commands.doctor.findings import Finding, Report


def test_a_finding_is_one_line_with_its_advice():
    line = Finding("FAIL", "port", "2222 is\nbusy", "use another").line()
    assert line == "FAIL  port        2222 is busy: use another"


def test_the_exit_code_is_2_only_with_a_failure():
    stream = io.StringIO()
    report = Report(Console(stream))
    report.ok("disk", "fine")
    report.warn("clock", "behind", "set it")
    assert report.exit_code == 0 and report.summary().endswith("(1 check ok, 1 warning)")
    assert "nothing found" in report.summary()
    report.fail("names", "unknown")
    assert report.exit_code == 2 and report.summary().startswith("doctor: 1 finding must be corrected")
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["ok", "warn", "FAIL"]
    assert [finding.subject for finding in report.failures] == ["names"]

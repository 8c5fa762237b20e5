"""The checks without TensorFlow, in their order, on made-up jobs; `tests/process/test_doctor.py` runs all of them."""

from __future__ import annotations

import io

from ps_train.base.console import Console
from ps_train.commands.doctor.findings import Report
from ps_train.commands.doctor.options import Options
from ps_train.commands.doctor.run import Visit
from ps_train.config import flags


def visited(*arguments, options=None, environ=None):
    report = Report(Console(io.StringIO()))
    visit = Visit(flags.parse(arguments, {}), options or Options(), report, environ or {})
    visit.before_tensorflow()
    return [finding.subject for finding in report.findings], report


def test_a_local_job_has_no_names_or_ports():
    subjects, report = visited("--num_ps=2", "--num_workers=1", environ={"http_proxy": "http://p:1"})
    assert subjects == ["versions", "cores", "files", "proxy", "public"]
    assert "3 tasks on this machine" in report.findings[1].text and report.findings[3].level == "warn"


def test_the_plan_alone_looks_at_no_network():
    subjects, _ = visited("--ps_hosts=none.invalid:1", "--worker_hosts=b.invalid:1", options=Options(plan_only=True))
    assert subjects == ["versions", "cores", "files"]


def test_a_job_that_would_be_refused_ends_the_checks():
    subjects, report = visited("--model=not.here:Net")
    assert subjects == ["versions", "job"] and report.exit_code == 2

"""The doctor's time to wait."""

from __future__ import annotations

from ps_train.commands.doctor.options import Options
from ps_train.config.job import Job


def test_the_doctor_waits_as_long_as_the_job_starts_but_a_minute_at_most() -> None:
    assert Options().wait(Job(startup_timeout_secs=20)) == 20
    assert Options().wait(Job(startup_timeout_secs=300)) == 60
    assert Options(wait_secs=0.0).wait(Job(startup_timeout_secs=20)) == 0
    assert Options(wait_secs=100.0).wait(Job(startup_timeout_secs=20)) == 100

"""The tasks of a script's cluster; tests/process/test_scripts.py starts them."""

from __future__ import annotations

import pytest

from ps_train.compat.scripts.cluster_of_scripts import ScriptJob, current_environment


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, {"ps": 1, "worker": 2}),
        ({"num_ps": 2, "num_workers": 3, "chief": "chief"}, {"ps": 2, "chief": 1, "worker": 2}),
        ({"num_ps": 0, "num_workers": 1, "chief": "master"}, {"master": 1}),
        ({"has_evaluator": True}, {"ps": 1, "worker": 2}),
    ],
)
def test_the_chief_is_one_of_the_workers_and_the_evaluator_no_member(options, sizes):
    assert ScriptJob("s.py", [], **options).job_sizes() == sizes


def test_the_users_log_level_counts(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert current_environment()["TF_CPP_MIN_LOG_LEVEL"] == "0"
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    assert current_environment()["TF_CPP_MIN_LOG_LEVEL"] == "3"

"""The Task: its job name and index."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.job import Task


def test_an_unknown_job_name_is_refused_with_the_known_ones():
    for allowed in ("ps", "worker", "chief", "evaluator", "local"):
        assert Task(allowed, 0).job_name == allowed
    from ps_train.config.fields import check_fields

    with pytest.raises(ConfigError, match=r"job_name=master \(from TF_CONFIG\).*ps, worker, chief, evaluator, local"):
        check_fields(Task("master", 0), {"job_name": "TF_CONFIG"})


def test_a_task_is_written_job_name_colon_index():
    assert str(Task("ps", 3)) == "ps:3"

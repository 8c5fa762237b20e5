"""Fields of Job and Task as options."""

from __future__ import annotations

from ps_train.config.fields import job_fields
from ps_train.config.job import Job, Task


def test_every_option_has_help_and_a_section():
    for field in [*job_fields(Job), *job_fields(Task)]:
        assert field.metadata["help"].rstrip(".] "), field.name
        assert field.metadata["section"], field.name


def test_sources_are_not_an_option():
    assert "sources" not in {field.name for field in job_fields(Job)}

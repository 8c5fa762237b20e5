"""Fields of Job and Task as options."""

from __future__ import annotations

import re

from ps_train.config.fields import job_fields
from ps_train.config.job import Job, Task
from ps_train.config.verbs import VERBS


def test_every_option_has_help_and_a_section():
    for field in [*job_fields(Job), *job_fields(Task)]:
        assert field.metadata["help"].rstrip(".] "), field.name
        assert field.metadata["section"], field.name


def test_every_option_and_verb_has_a_page_and_a_heading():
    pages = {field.name: field.metadata["page"] for field in [*job_fields(Job), *job_fields(Task)]}
    pages |= {name: verb.page for name, verb in VERBS.items()}
    assert {name: page for name, page in pages.items() if not re.fullmatch("[A-Za-z]+#[a-z0-9-]+", page)} == {}


def test_sources_are_not_an_option():
    assert "sources" not in {field.name for field in job_fields(Job)}

"""The documented JSON of the status page: its parts fit together.  The board's tests compare its keys with it."""

from __future__ import annotations

from unittest.mock import Mock

from ps_train.config.job import Job
from ps_train.observe.status.health import findings
from ps_train.observe.status.observer import JobObserver
from ps_train.observe.status.status_json import KEYS, PATHS, STATUS


def test_the_documented_finding_is_what_its_rule_says_of_the_documented_job():
    (documented,) = STATUS["health"]
    assert documented in findings(STATUS, Job())


def test_every_key_with_a_meaning_is_in_the_example():
    for key in KEYS:
        found = STATUS
        for name in key.split("."):
            found = (found[0] if isinstance(found, list) else found)[name]


def test_the_documented_paths_are_those_of_the_server():
    assert PATHS.keys() == JobObserver._routes(Mock()).keys()

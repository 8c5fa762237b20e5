"""The mark `usual`: the first cases of a parametrized test are usual, the others are `long`.

Tests that start processes take longest, and wait much.  Each worker of pytest-xdist begins with its share of them, so
that no core is idle at the end.

On a machine with a public address the tests, and the processes that they start, may serve nevertheless; the tests of
the refusal take it back.
"""

from __future__ import annotations

import collections
import itertools
import os

import pytest

from ps_train.base.network_interfaces import ALLOW_VARIABLE, public_addresses

if public_addresses():
    os.environ[ALLOW_VARIABLE] = "1"


_QUICK, _BUSY = ("unit",), ("cluster", "fuzz", "pairwise")
"""Folders whose tests are short, and folders whose tests compute; those of the others start processes and wait."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the other cases, before pytest leaves out what is `long`."""
    counts: collections.Counter[str] = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("usual")
        if mark is None or item.get_closest_marker("long") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        counts[test] += 1
        if counts[test] > mark.args[0]:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Deals the tests out like cards: pytest-xdist gives each worker an equal part of the list, in its order.

    Tests that wait alternate with those that compute, and short ones come last.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    kinds: dict[str, list[pytest.Item]] = {"waiting": [], "busy": [], "quick": []}
    for item in session.items:
        folder = item.nodeid.split("/")[1]
        kinds["quick" if folder in _QUICK else "busy" if folder in _BUSY else "waiting"].append(item)
    both = itertools.zip_longest(kinds["waiting"], kinds["busy"])
    items = [item for pair in both for item in pair if item is not None] + kinds["quick"]
    session.items[:] = [item for first in range(workers) for item in items[first::workers]]

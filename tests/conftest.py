"""The mark `usual`: the first cases of a parametrized test are usual, the others are `long`.

On a machine with a public address the tests, and the processes that they start, may serve nevertheless; the tests of
the refusal take it back.

The garbage collector passes over what was imported: graphs are made of many objects, and each of its passes over them
and TensorFlow takes long.
"""

from __future__ import annotations

import collections
import gc
import os

import pytest

from ps_train.base.network_interfaces import ALLOW_VARIABLE, public_addresses

_OBJECTS = 20_000
"""New objects after which the collector looks at them; Python's 700 are a few operations of a graph."""

gc.disable()  # until everything is imported
if public_addresses():
    os.environ[ALLOW_VARIABLE] = "1"


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


def pytest_collection_finish() -> None:
    """From here on garbage is collected."""
    gc.freeze()
    gc.set_threshold(_OBJECTS, 10, 10)
    gc.enable()

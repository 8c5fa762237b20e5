"""The mark `usual`: the first cases of a parametrized test are usual, the others are `long`.

Of a product of parameters, long cases are only those with a value that no case before them has.  `python -m
tests.trials.pairwise` tries values together.  All long cases of a test but the first are `variation`s too.

On a machine with a public address the tests, and the processes that they start, may serve nevertheless; the tests of
the refusal take it back.

The garbage collector passes over what was imported: graphs are made of many objects, and each of its passes over them
and TensorFlow takes long.
"""

from __future__ import annotations

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
    """Marks cases as `long`, before pytest leaves these out, and drops those that add no value of a parameter."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept: set[int] = set()
    for cases in tests.values():
        usual = [case for case in cases if not case.get_closest_marker("long")]
        if usual and (mark := usual[0].get_closest_marker("usual")) is not None:
            for case in usual[mark.args[0] :]:
                case.add_marker(pytest.mark.long)
            del usual[mark.args[0] :]
        values = set().union(*map(_values, usual))
        kept.update(map(id, usual))
        is_first = True
        for case in cases:
            if id(case) not in kept and (new := _values(case) - values):
                kept.add(id(case))
                values |= new
                if not is_first:
                    case.add_marker(pytest.mark.variation)
                is_first = False
    items[:] = [item for item in items if id(item) in kept]


def _values(case: pytest.Item) -> set[tuple[str, int]]:
    """Returns the values of the parameters; a test without parameters has one of its own."""
    call = getattr(case, "callspec", None)
    return {(name, id(value)) for name, value in call.params.items()} if call and call.params else {("", 0)}


def pytest_collection_finish() -> None:
    """From here on garbage is collected."""
    gc.freeze()
    gc.set_threshold(_OBJECTS, 10, 10)
    gc.enable()

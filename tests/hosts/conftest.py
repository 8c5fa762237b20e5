from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.hosts.host import Network, check_possible
from tests.support.machine.processes import Processes, make_processes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A job on a machine that runs many others starts slowly."""
    for item in items:
        if "tests/hosts/" in item.nodeid and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture
def processes(tmp_path: pathlib.Path) -> Iterator[Processes]:
    check_possible()
    yield from make_processes(tmp_path)


@pytest.fixture
def network(tmp_path: pathlib.Path, processes: Processes) -> Iterator[Network]:
    with Network(tmp_path, processes) as network:
        yield network

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.hosts.host import Network, check_possible
from tests.support.processes import Processes, make_processes


@pytest.fixture
def processes(tmp_path: pathlib.Path) -> Iterator[Processes]:
    check_possible()
    yield from make_processes(tmp_path)


@pytest.fixture
def network(tmp_path: pathlib.Path, processes: Processes) -> Iterator[Network]:
    with Network(tmp_path, processes) as network:
        yield network

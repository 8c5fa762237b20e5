from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.support.machine.processes import Processes, make_processes


@pytest.fixture
def processes(tmp_path: pathlib.Path) -> Iterator[Processes]:
    yield from make_processes(tmp_path)

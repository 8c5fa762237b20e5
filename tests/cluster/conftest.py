"""Every test of this tier gives its servers back, emptied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.clusters.servers import POOL


@pytest.fixture(autouse=True)
def servers() -> Iterator[None]:
    yield
    POOL.give_back()

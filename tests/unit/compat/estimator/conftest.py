"""Settings of the Estimator's tests: no cluster from outside, and event files closed at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow.compat.v1 as v1


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    yield
    v1.summary.FileWriterCache.clear()

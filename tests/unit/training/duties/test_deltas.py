"""The chain of deltas leads to the last checkpoint, and its writer ends with the training."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.training.duties import deltas


def test_the_last_delta_is_waited_for_and_the_writer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Writer:
        def __init__(self, *arguments: Any) -> None:
            calls.append(arguments)

        def finish(self, secs: float) -> None:
            calls.append(("finish", secs))

        def close(self) -> None:
            calls.append("close")

    monkeypatch.setattr(deltas, "DeltaWriter", Writer)
    setting: Any = types.SimpleNamespace(
        console=types.SimpleNamespace(line=calls.append), joined=types.SimpleNamespace(directory="m"),
        prepared=types.SimpleNamespace(job=types.SimpleNamespace(delta_every_secs=60)),
    )  # fmt: skip
    duty = deltas.Deltas(setting)
    duty.finished(None)  # type: ignore[arg-type]
    duty.ended(None)  # type: ignore[arg-type]
    assert calls == [("m", 60), ("finish", 600.0), "deltas m/deltas", "close"]

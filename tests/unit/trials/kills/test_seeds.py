"""The kill tests have a case of any seed that is asked for."""

from __future__ import annotations

import pytest

from tests.trials.kills.seeds import VARIABLE, asked_seeds


def test_seeds_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert asked_seeds(1) == []
    monkeypatch.setenv(VARIABLE, "3,1234,1,37,0")
    assert asked_seeds(1) == [0, 3, 37, 1234]

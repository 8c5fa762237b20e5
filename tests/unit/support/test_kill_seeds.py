"""The kill tests have a case of any seed that is asked for."""

from __future__ import annotations

import pytest

from tests.support.kill_seeds import VARIABLE, seeds_from_2


def test_seeds_beyond_those_of_the_suite_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert seeds_from_2(4) == [2, 3, 4]
    monkeypatch.setenv(VARIABLE, "3,1234,1,37,0")
    assert seeds_from_2(4) == [2, 3, 4, 0, 37, 1234]

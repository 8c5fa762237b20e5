"""The verdicts of trials, their lists of numbers, and what a signal ends."""

from __future__ import annotations

import os
import re
import sys

import pytest

from tests.support.machine.proc import is_alive
from tests.trials import running
from tests.trials.running import Verdicts, numbers_of, own_processes, side_by_side, text_of


def test_numbers_are_read_and_written_as_runs() -> None:
    assert numbers_of("3,7,20-22") == [3, 7, 20, 21, 22]
    assert text_of([4, 1, 2, 3, 9]) == "1-4, 9"
    assert numbers_of(text_of([5, 6, 8])) == [5, 6, 8]
    with pytest.raises(ValueError):
        numbers_of("3,x")


def fails() -> str:
    pytest.fail("no end")  # no Exception


def test_each_case_has_a_line_and_the_sum_names_the_wrong_ones(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = Verdicts("rows")
    assert verdicts.judge("3", lambda: "", "update=sync") == ""
    assert verdicts.judge("7", lambda: "w is 2, not 1") == "w is 2, not 1"
    assert "no end" in verdicts.judge("8", fails)
    assert verdicts.end() == 1 and verdicts.wrong == ["7", "8"]
    shown = [re.sub(r" *[\d.]+s", "SECS", line) for line in capsys.readouterr().out.splitlines()]
    assert shown[:2] == ["SECS right 3 update=sync", "SECS WRONG 7: w is 2, not 1"]
    assert shown[2].startswith("SECS WRONG 8: Failed: no end") and __file__ in shown[3]
    assert shown[4] == "1 of 3 rows right,SECS; wrong: 7, 8"


def test_nothing_wrong_is_exit_code_0_and_a_signal_is_no_verdict() -> None:
    verdicts = Verdicts("rows")
    verdicts.judge("1", lambda: "")
    with pytest.raises(SystemExit):
        verdicts.judge("2", lambda: sys.exit(143))
    assert verdicts.end() == 0 and verdicts.total == 1


def test_all_cases_are_run_and_their_results_are_handed_on() -> None:
    results: list[int] = []
    side_by_side(lambda number: number * 2, range(5), 2, results.append)
    assert sorted(results) == [0, 2, 4, 6, 8]


def test_a_signal_ends_the_processes_of_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise InterruptedError(code)

    monkeypatch.setattr(os, "_exit", leave)
    with own_processes("test") as processes:
        sleeper = processes.command(["sleep", "60"])
        assert is_alive(sleeper.pid)
        with pytest.raises(InterruptedError):
            side_by_side(lambda number: number, [1], 1, lambda number: sys.exit(143))
        assert not is_alive(sleeper.pid)
    assert running._RUNNING == [] and not processes.directory.exists()

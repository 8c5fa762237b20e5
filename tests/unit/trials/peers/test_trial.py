"""The outcomes of the peers' tests: how they are read, stored and compared."""

from __future__ import annotations

import json
import pathlib

from tests.trials.peers import trial as peers
from tests.trials.peers.suites import SUITES

RIGHT, PRIVATE = peers.Outcome("right"), peers.Outcome("private", "it replaces a name")


def test_a_test_that_stopped_the_process_is_wrong_and_a_skipped_one_is_left_out() -> None:
    written = [
        {"test": "A.a"},
        {"test": "A.a", "outcome": "right", "error": ""},
        {"test": "A.b"},
        {"test": "A.b", "outcome": "skipped", "error": "no GPU"},
        {"test": "A.c"},
    ]
    found = peers.outcomes_of(map(json.dumps, written), "the process ended with code -11")
    assert found == {"A.a": RIGHT, "A.c": peers.Outcome("wrong", "the process ended with code -11")}
    assert peers.outcomes_of([], "no end") == {"*": peers.Outcome("cannot run", "no end")}


def test_a_change_shows_in_both_directions_and_in_the_suites_that_ran() -> None:
    wrong = peers.Outcome("wrong", "ValueError: x")
    found = {("s", "now_right"): RIGHT, ("s", "now_wrong"): wrong, ("s", "as_before"): wrong, ("s", "new"): RIGHT}
    before = {("s", "now_right"): PRIVATE, ("s", "now_wrong"): RIGHT, ("s", "as_before"): PRIVATE, ("s", "gone"): RIGHT}
    assert peers.changes(found, {**before, ("other", "t"): RIGHT}, ["s"]) == [
        "s gone: was right, is gone",
        "s new: was new, is right",
        "s now_right: was private, is right",
        "s now_wrong: was right, is wrong ValueError: x",
    ]
    assert peers.kept(wrong, PRIVATE) == PRIVATE and peers.kept(wrong, RIGHT) == wrong
    assert peers.kept(wrong, peers.Outcome("wrong", "an older error")) == wrong
    assert peers.kept(RIGHT, PRIVATE) == RIGHT and peers.kept(wrong, None) == wrong


def test_outcomes_are_stored_and_a_file_is_found_in_a_checkout(tmp_path: pathlib.Path) -> None:
    outcomes = {("s", "A.b"): PRIVATE, ("s", "A.a (1, 2)"): RIGHT}
    peers.write_expected(outcomes, tmp_path / "expected.tsv")
    assert peers.read_expected(tmp_path / "expected.tsv") == outcomes
    file = tmp_path / "estimator" / SUITES["run_config"]
    file.parent.mkdir(parents=True)
    file.touch()
    assert (
        peers.find(tmp_path, SUITES["run_config"]) == file == peers.find(tmp_path / "estimator", SUITES["run_config"])
    )
    assert peers.find(tmp_path, SUITES["train.saver"]) is None


def test_the_expected_outcomes_name_suites_and_give_reasons() -> None:
    for (suite, test), outcome in peers.read_expected().items():
        assert suite in SUITES and test and outcome.kind in ("right", *peers._KINDS)
        assert bool(outcome.reason) == (outcome.kind != "right"), (suite, test)

"""A task learns from its heartbeat of a ps that is lost, of one that is back, and of one whose state is gone."""

from __future__ import annotations

from ps_train.cluster.membership.ps_liveness import PsLiveness


def liveness():
    """Two ps, heard at 10 in the generation w."""
    made = PsLiveness(["ps:0 (a:1)", "ps:1 (b:1)"], ["one", "two"], recovery_timeout_secs=60)
    assert made.record_answer(0, "one", "w", 10.0) is None
    assert made.record_answer(1, "two", "w", 10.0) is None
    return made


def test_a_silent_ps_is_reported_once_with_its_address_and_the_cause():
    made = liveness()
    assert (
        made.record_silence(1, "refused")
        == "lost ps:1 (b:1): refused; waiting up to 60s for it (recovery_timeout_secs)"
    )
    assert made.record_silence(1, "refused") is None
    assert made.is_silent(1) and not made.is_silent(0)


def test_a_ps_that_only_was_away_has_lost_nothing():
    made = liveness()
    made.record_silence(1, "refused")
    assert not made.all_answered_since(10.5)
    assert made.record_answer(1, "two", "w", 12.0) == "ps:1 (b:1) answers again"
    assert not made.generation_changed("w", 0.0)


def test_a_ps_that_moved_is_reported_with_both_addresses_and_goes_by_the_new_one():
    made = liveness()
    made.record_silence(1, "refused")
    assert made.record_move(1, "ps:1 (c:2)") == "ps:1 (b:1) is now ps:1 (c:2) (cluster_file)"
    reported = made.record_answer(1, "three", "", 12.0)
    assert reported is not None and reported.startswith("ps:1 (c:2) is back, as a new process")


def test_a_ps_that_was_restarted_is_in_no_generation():
    made = liveness()
    made.record_silence(1, "refused")
    reported = made.record_answer(1, "three", "", 12.0)
    assert reported is not None and reported.startswith("ps:1 (b:1) is back, as a new process")
    assert made.generation_changed("w", 11.0)


def test_a_restart_without_a_noticed_silence_is_reported_too():
    reported = liveness().record_answer(0, "three", "", 12.0)
    assert reported is not None and reported.startswith("lost ps:0 (a:1): it was restarted")


def test_an_answer_from_before_a_generation_began_says_nothing_about_it():
    made = liveness()
    assert not made.generation_changed("new", since=10.0)
    made.record_answer(0, "one", "new", 11.0)
    assert not made.generation_changed("new", since=10.0)
    made.record_answer(1, "two", "w", 11.0)
    assert made.generation_changed("new", since=10.0)


def test_a_silent_ps_may_still_be_in_the_same_generation():
    made = liveness()
    made.record_answer(0, "one", "other", 11.0)
    made.record_silence(0, "frozen")
    assert not made.generation_changed("w", since=10.0)


def test_all_answer_only_when_all_were_asked_since():
    made = liveness()
    assert made.all_answered_since(9.0)
    made.record_answer(0, "one", "w", 13.0)
    assert not made.all_answered_since(12.0)
    made.record_answer(1, "two", "w", 12.5)
    assert made.all_answered_since(12.0)

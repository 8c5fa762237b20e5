"""A sign of life is given again and again until it is stopped; its reader measures since it has changed."""

from __future__ import annotations

import threading

from ps_train.base.life_sign import LastChange, LifeSign


def test_signs_are_given_until_the_sign_is_stopped():
    counted, enough = [], threading.Event()

    def beat():
        counted.append(1)
        if len(counted) == 3:
            sign.stop()
            enough.set()

    sign = LifeSign("test", beat, every_secs=0.01, first_secs=0.0)
    sign.start()
    assert enough.wait(10)
    sign.stop(wait_secs=10)
    assert sign.is_stopped and len(counted) == 3


def test_a_sign_that_was_never_started_can_be_stopped():
    sign = LifeSign("test", lambda: None, every_secs=60)
    sign.stop(wait_secs=10)
    assert sign.is_stopped


def test_a_value_is_as_old_as_the_time_since_its_reader_saw_it_change():
    last = LastChange()
    assert last.is_new(None) and last.secs(None, 50.0) == 0
    assert last.secs(None, 57.0) == 7
    assert last.is_new("first") and last.secs("first", 60.0) == 0
    assert not last.is_new("first") and last.secs("first", 65.0) == 5


def test_seconds_in_which_nothing_could_be_read_do_not_count():
    last = LastChange()
    last.extend(10.0)
    last.secs(1, 50.0)
    last.extend(10.0)
    assert last.secs(1, 70.0) == 10

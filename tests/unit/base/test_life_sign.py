"""A sign of life is given again and again until it is stopped."""

from __future__ import annotations

import threading

from ps_train.base.life_sign import LifeSign


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

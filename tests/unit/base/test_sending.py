"""What is sent from a thread is tried again, and the last attempt is the last one."""

from __future__ import annotations

import threading
import time

import pytest

from ps_train.base import side_work
from ps_train.base.sending import Sender


@pytest.fixture(autouse=True)
def nothing_failing():
    side_work.forget()
    yield
    side_work.forget()


def test_an_error_is_tried_again_until_what_is_asked_for_is_sent():
    asked, errors = [], []

    def send(is_asked):
        asked.append(is_asked)
        if len(asked) < 4:
            raise OSError(str(len(asked)))

    sender = Sender("test", send, lambda error: not errors.append(str(error)), 60, (0.01, 0.02))
    sender.start()
    begin = time.monotonic()
    assert sender.flush(60) and asked == [True] * 4 and errors == ["1", "2", "3"]
    assert time.monotonic() - begin < 50  # not until the deadline
    assert not sender.is_over


def test_nothing_is_sent_after_the_last_attempt_though_it_fails():
    attempts = []

    def send(is_asked):
        attempts.append(is_asked)
        raise OSError

    sender = Sender("test", send, lambda error: True, 60, (0.01, 0.01))
    sender.start()
    assert not sender.flush(10, is_last=True) and sender.is_over and len(attempts) == 1
    assert not sender.flush(0.01) and len(attempts) == 1


def test_an_error_that_no_attempt_would_change_ends_it_and_a_hanging_one_is_not_waited_for():
    sender = Sender("test", lambda is_asked: 1 // 0, lambda error: False, 60, (0.01, 0.01))
    sender.start()
    assert not sender.flush(10) and sender.is_over
    released = threading.Event()
    sender = Sender("test", lambda is_asked: released.wait() and None, lambda error: True, 60, (0.01, 0.01))
    sender.start()
    assert not sender.flush(0.05) and not sender.is_over
    released.set()
    sender.close()

"""The threads of a program and of the engine meet at each step, whichever of them ends first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ps_train.base.errors import ModelError, TrainingError
from ps_train.compat.distribute.exchange import Exchange


@pytest.fixture
def threads():
    with ThreadPoolExecutor() as pool:
        yield pool


def values(number):
    return [np.full(2, number, np.float32)]


def test_values_go_to_the_program_and_gradients_to_the_engine(threads):
    exchange = Exchange()
    given = values(1)
    step = threads.submit(exchange.next_gradients, given)
    first = exchange.first_values()
    given[0][:] = 9  # TensorFlow uses the memory again
    np.testing.assert_array_equal(first, values(1))
    applied = threads.submit(exchange.apply, values(5))
    np.testing.assert_array_equal(step.result(5), values(5))
    step = threads.submit(exchange.next_gradients, values(2))
    np.testing.assert_array_equal(applied.result(5), values(2))
    exchange.end()
    assert step.result(5) is None and exchange.next_gradients(values(3)) is None


def test_a_step_of_a_lost_session_takes_no_gradients(threads):
    exchange = Exchange()
    lost = threads.submit(exchange.next_gradients, values(1))
    exchange.first_values()
    step = threads.submit(exchange.next_gradients, values(2))
    with pytest.raises(TrainingError, match="lost"):
        lost.result(5)
    applied = threads.submit(exchange.apply, values(5))
    np.testing.assert_array_equal(step.result(5), values(5))
    threads.submit(exchange.next_gradients, values(3))
    np.testing.assert_array_equal(applied.result(5), values(3))
    exchange.end()


@pytest.mark.parametrize(
    ("cause", "kind", "text"),
    [
        (None, TrainingError, "takes no more gradients"),
        (ModelError("no such rule"), ModelError, "no such rule"),
        (ValueError("x"), TrainingError, "ValueError: x"),
    ],
)
def test_a_program_that_waits_hears_the_end_of_the_engine(threads, cause, kind, text):
    exchange = Exchange()
    waiting = threads.submit(exchange.apply, values(1))
    threading.Timer(0.05, exchange.close, [cause]).start()
    with pytest.raises(kind, match=text):
        waiting.result(5)

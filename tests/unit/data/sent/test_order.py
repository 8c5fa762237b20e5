"""The order of examples depends on the seed and on the number of the batch alone."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.data.sent.order import Order


def rows(order, numbers):
    values = np.arange(order.examples)
    return [values[order.rows(number)].tolist() for number in numbers]


@pytest.mark.parametrize("shuffle", [True, "batch", False])
def test_the_order_has_no_state(shuffle):
    one, other = (Order(10, 4, shuffle, 7) for _ in range(2))
    assert rows(one, range(9)) == rows(other, reversed(range(9)))[::-1]


@pytest.mark.parametrize("shuffle", [True, "batch", False])
def test_every_epoch_has_all_examples(shuffle):
    order = Order(10, 4, shuffle, 7)
    for epoch in range(3):
        found = rows(order, range(3 * epoch, 3 * epoch + 3))
        assert sorted(row for batch in found for row in batch) == list(range(10))
        assert [len(batch) for batch in found] == [order.size(number) for number in range(3)] == [4, 4, 2]


@pytest.mark.parametrize("shuffle", [True, "batch", False])
def test_pieces_are_rows_of_the_batch(shuffle):
    order = Order(10, 4, shuffle, 7)
    values = np.arange(10)
    for number in range(6):
        whole = values[order.rows(number)]
        assert np.array_equal(values[order.rows(number, 1, 2)], whole[1:2])

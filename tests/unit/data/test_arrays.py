"""Arrays know their length and refuse lengths that differ."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.data.arrays import Arrays
from ps_train.errors import DataError

NUMBERS = Arrays(np.arange(23, dtype=np.float32)[:, None] * 10, np.arange(23))


def test_arrays_that_differ_in_number_are_refused_with_their_lengths():
    with pytest.raises(DataError) as caught:
        Arrays({"id": np.zeros(3), "image": np.zeros((4, 2))}, np.zeros(3))
    assert "id 3, image 4, labels 3" in str(caught.value)


def test_the_length_of_arrays_is_the_number_of_examples():
    assert len(NUMBERS) == 23

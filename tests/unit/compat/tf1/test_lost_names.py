"""Names that NumPy and Python have lost since TensorFlow 1."""

from __future__ import annotations

import collections
import collections.abc

import numpy as np
import pytest

from ps_train.compat.tf1 import lost_names


@pytest.fixture
def names():
    """The names of this NumPy and this Python, which are as before at the end."""
    before = [(module, dict(vars(module))) for module in (np, collections)]
    yield before
    for module, names in before:
        for name in vars(module).keys() - names.keys():
            delattr(module, name)


def test_the_names_are_what_numpy_had_under_them(names):
    lost_names.restore()
    array = np.array([[1.7, 2.2], [3.0, 4.0]])
    np.testing.assert_array_equal(array.astype(np.int), [[1, 2], [3, 4]])
    assert array.astype(np.float_).dtype == np.float64 and np.zeros(1, np.object).dtype == object
    np.testing.assert_array_equal(np.in1d(array, [3.0]), [False, False, True, False])
    np.testing.assert_array_equal(np.row_stack([[1], [2]]), [[1], [2]])
    np.testing.assert_array_equal(np.asfarray([1, 2]), [1.0, 2.0])
    assert np.product([2, 3]) == 6 and np.alltrue([1, 1]) and not np.sometrue([0]) and np.isnan(np.NaN)

    assert collections.Mapping is collections.abc.Mapping and isinstance([], collections.Iterable)


def test_a_name_that_is_there_stays(names):
    lost_names.restore()
    for module, before in names:
        assert all(vars(module)[name] is value for name, value in before.items())

"""A lookup gives each id its row."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ps_train import embeddings
from ps_train.base.errors import ModelError
from ps_train.modeling.tables.lookups import Declaration
from tests.support.graphs.lookups import looked_up


@pytest.mark.parametrize(("ids", "shape"), [([3, 0, 9], (3, 4)), ([[3, 0], [9, 9]], (2, 2, 4))])
def test_without_a_combiner_every_id_gives_its_row(ids: list, shape: tuple[int, ...]) -> None:
    found, table = looked_up(ids, rows=10, dimension=4)
    assert found.shape == shape
    assert np.array_equal(found, table[np.array(ids)])
    assert len(np.unique(table, axis=0)) == 10


def test_ragged_ids_need_a_combiner() -> None:
    with pytest.raises(ModelError, match="RaggedTensor ids without a combiner"):
        looked_up(lambda: tf.RaggedTensor.from_row_splits(tf.constant([1]), tf.constant([0, 1])), rows=5, dimension=2)


def test_a_lookup_declares_all_that_a_table_takes() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(embeddings.Table)}
    declared = {name: hint.__forward_arg__ for name, hint in Declaration.__annotations__.items()}
    assert {"name": "str", **declared} == fields


def test_an_argument_that_no_table_has_is_refused() -> None:
    with pytest.raises(TypeError, match="'row'"):
        looked_up([1], row=5, dimension=2)

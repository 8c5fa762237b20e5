"""Declarations of tables agree between lookups."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_train import embeddings
from ps_train.base.errors import ModelError
from tests.support.graphs.lookups import evaluated


def test_one_table_has_one_kind_of_ids() -> None:
    def both():
        embeddings.lookup("users", tf.constant([1]), capacity=5, dimension=2)
        embeddings.lookup("users", tf.constant(["a"]), capacity=5, dimension=2)

    with pytest.raises(ModelError, match="table users is given strings by one lookup and whole numbers by another"):
        evaluated(both)

"""Mutations of `graph/` and `embeddings/`."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

MUTATIONS = [
    Mutation(
        "a pull that is torn between two ps is not recognised",
        "ps_train/graph/transport.py",
        "tf.reduce_any(tf.not_equal(",
        "tf.reduce_all(tf.not_equal(0 * ",
        ("tests/cluster/test_rounds.py::test_a_gradient_of_values_from_two_different_rounds_is_dropped",),
        within="Transport.pull",
    ),
]

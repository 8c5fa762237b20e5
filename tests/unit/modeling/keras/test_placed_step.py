"""Large embeddings of a traced step: which of them are tables, and what is said of them."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from ps_train.modeling.keras.placed_step import PlacedStep
from ps_train.modeling.keras.traced_step import trace_step

ROWS, COLUMNS = 20_000, 16  # above 1 MiB


def placed(optimizer: Any, by_rows: bool = True, tied: bool = False, **options: Any) -> PlacedStep:
    ids = keras.Input((3,), dtype="int32")
    table = keras.layers.Embedding(ROWS, COLUMNS, name="table", **options)
    hidden = keras.layers.Flatten()(table(ids))
    if tied:
        hidden = hidden[:, :COLUMNS] @ keras.ops.transpose(table.embeddings)
    model = keras.Model(ids, keras.layers.Dense(1)(hidden))
    model.compile(optimizer, "mse")
    batch = tf.TensorSpec([None, 3], tf.int32), tf.TensorSpec([None, 1], tf.float32)
    return PlacedStep(trace_step(model, batch), 0, by_rows)


@pytest.mark.parametrize(
    ("optimizer", "what"), [("adam", "values and slots"), ("rmsprop", "slots"), ("sgd", ""), ("adagrad", "")]
)
def test_a_table_whose_rule_moves_other_rows_is_told(optimizer: str, what: str) -> None:
    found = placed(optimizer)
    assert found.tables == {"table/embeddings"}
    notes = found.notes()
    assert len(notes) == bool(what)
    if what:
        assert f"Keras also changes {what} of rows that a batch does not read; --keras_tables=dense" in notes[0]


def test_all_rows_travel_where_the_user_says_so() -> None:
    found = placed("adam", by_rows=False)
    assert not found.tables and not found.notes()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"embeddings_regularizer": "l2"}, "reads all rows"),
        ({"optimizer": keras.optimizers.SGD(gradient_accumulation_steps=2)}, "gradient_accumulation_steps=2 updates"),
        ({"optimizer": keras.optimizers.SGD(clipnorm=1.0)}, "clipnorm=1.0 needs the whole gradient"),
    ],
)
def test_a_large_embedding_that_is_no_table_has_a_reason(options: dict[str, Any], reason: str) -> None:
    found = placed(**{"optimizer": "sgd", **options})
    assert not found.tables
    (note,) = found.notes()
    assert note.startswith("table/embeddings (1.2 MiB) travels whole at every step: ") and reason in note

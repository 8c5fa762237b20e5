"""A Keras model takes the values of a job's checkpoint, and goes on as the job would."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest

from ps_train.base.errors import ConfigError, ModelError
from ps_train.compat.keras.loading import load
from ps_train.engine.run_directory.checkpoint_contents import LAYOUTS_KEY
from ps_train.engine.variables.variables import rows_spec
from ps_train.modeling.keras.names import keyed_variables
from ps_train.modeling.keras.rules import trace_rules
from ps_train.modeling.model import RATE_KEY
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import layout_of, layouts_text
from ps_train.saved.values import Writer

ROWS = 1000
random = np.random.RandomState(0)
X, Y = random.randint(0, ROWS, (64, 3)), random.randn(64, 1).astype("f")


def made(optimizer="adam", name="net", units=4):
    keras.utils.set_random_seed(3)
    embedding = keras.layers.Embedding(ROWS, units, name="users")
    layers = [keras.Input((3,)), embedding, keras.layers.Flatten(), keras.layers.Dropout(0.2, name="drop")]
    model = keras.Sequential([*layers, keras.layers.Dense(1, name="out")], name=name)
    model.compile(optimizer() if callable(optimizer) else optimizer, "mse")
    return model


def accumulating():
    return keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)


def trained(optimizer="adam"):
    model = made(optimizer)
    model.fit(X, Y, 16, 2, verbose=0, shuffle=False)
    return model


def write(model, folder, step=8, table=None, name=None):
    """Writes what a job has: the rows of a table in its order, in parts of two ps; the rate is a variable of the ps."""
    variables = keyed_variables(model)
    keys = [key for key, variable in variables.items() if any(variable is one for one in model.trainable_variables)]
    slots = trace_rules(model.optimizer, model.trainable_variables, keys).slot_variables
    values = {key: np.asarray(variable.value) for key, variable in (variables | slots).items()}
    values[RATE_KEY] = np.float32(model.optimizer.learning_rate)
    writer = Writer(str(folder / (name or f"model.ckpt-{step}")))
    writer.add("global_step", np.int64(step))
    if table is not None:
        writer.add(LAYOUTS_KEY, np.array(layouts_text({table.name: table}).encode(), object))
    for key, value in values.items():
        if table is not None and key.startswith(table.name):
            value = value[layout_of(table).indices_at(0, ROWS)]
        parts = np.array_split(np.arange(len(value)), 2) if value.ndim and len(value) == ROWS else [None]
        for part in parts:
            if part is None:
                writer.add(key, value)
            else:
                spec = rows_spec(list(value.shape), int(part[0]), len(part))
                writer.add(key, np.ascontiguousarray(value[part]), spec)
    writer.close()


def assert_equal(model, other):
    for one, another in zip(
        model.variables + model.optimizer.variables, other.variables + other.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(one, another, err_msg=one.path)


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adafactor", "nadam", accumulating])
def test_a_loaded_model_goes_on_as_the_one_that_was_trained(tmp_path, optimizer):
    right, model = trained(optimizer), made(optimizer)
    right.optimizer.learning_rate = 0.002
    write(right, tmp_path)
    assert load(model, str(tmp_path)) == 8
    assert_equal(model, right)
    for one in (right, model):
        one.fit(X, Y, 16, 1, verbose=0, shuffle=False)
    assert_equal(model, right)


def test_the_rows_of_a_table_come_by_id_its_slots_too(tmp_path):
    right, model = trained(), made()
    table = Table("net/users/embeddings", 4, rows=ROWS)
    assert list(layout_of(table).indices_at(0, ROWS)) != list(range(ROWS))
    write(right, tmp_path, table=table)
    load(model, str(tmp_path))
    assert_equal(model, right)


def test_a_checkpoint_can_be_named_and_the_newest_is_taken_without(tmp_path):
    first, second = made(), trained()
    first.optimizer.build(first.trainable_variables)
    first.optimizer.iterations.assign(4)
    write(first, tmp_path, 4)
    write(second, tmp_path, 12)
    model = made()
    assert load(model, tmp_path) == 12
    assert load(model, str(tmp_path / "model.ckpt-4")) == 4
    assert_equal(model, first)


def test_a_saved_model_has_values_too(tmp_path):
    right, model = trained(), made()
    (tmp_path / "saved_model.pb").write_bytes(b"")
    (tmp_path / "variables").mkdir()
    write(right, tmp_path / "variables", name="variables")
    assert load(model, str(tmp_path)) == 8
    assert_equal(model, right)


def test_a_model_that_is_not_compiled_takes_its_weights(tmp_path):
    right = trained()
    write(right, tmp_path)
    model = keras.Sequential.from_config(right.get_config())
    for variable in model.weights:
        variable.assign(variable * 0)
    load(model, str(tmp_path))
    for one, other in zip(model.weights, right.weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ("sgd", "adam", "no net/users/embeddings/momentum"),
        ("adam", "sgd", "it has net/out/bias/momentum"),
        ("adam", "rmsprop", "it has net/out/bias/momentum"),
    ],
)
def test_another_optimizer_starts_as_new_and_a_line_says_so(tmp_path, caplog, before, now, reason):
    right, model = trained(before), made(now)
    rate = float(model.optimizer.learning_rate)
    write(right, tmp_path)
    with caplog.at_level(logging.WARNING):
        load(model, str(tmp_path))
    assert "is of another optimizer than" in caplog.text
    assert reason in caplog.text
    assert int(model.optimizer.iterations) == 0
    assert float(model.optimizer.learning_rate) == rate
    np.testing.assert_array_equal(model.weights[0], right.weights[0])


def test_a_model_with_other_variables_is_refused_and_keeps_its_values(tmp_path):
    write(trained(), tmp_path)
    other = made(name="net_1")
    before = other.get_weights()
    with pytest.raises(ModelError, match=r"has no net_1/users/embeddings .* it has net/users/embeddings; Keras counts"):
        load(other, str(tmp_path))
    with pytest.raises(ModelError, match=r"has no else/users/embeddings .* it is of another model"):
        load(made(name="else"), str(tmp_path))
    with pytest.raises(ModelError, match=r"embeddings of shape \[1000, 4\], the model of \[1000, 5\]"):
        load(made(units=5), str(tmp_path))
    for one, another in zip(before, other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, another)


def test_a_model_without_variables_and_a_directory_without_checkpoints_are_refused(tmp_path):
    with pytest.raises(ModelError, match="is not built"):
        load(keras.Sequential([keras.layers.Dense(1)]), str(tmp_path))
    with pytest.raises(ConfigError, match=r"model_dir=.* has neither a checkpoint"):
        load(made(), str(tmp_path))

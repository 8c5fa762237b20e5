"""Names of Keras variables are unique, valid, and do not depend on the process."""

from __future__ import annotations

import re
import types

import keras
import numpy as np
import pytest

from ps_train.modeling.keras.names import (
    SlotName,
    keyed_slots,
    keyed_variables,
    slot_keys,
    slot_names,
    variable_keys,
)
from ps_train.modeling.keras.rules import trace_rules
from tests.support.keras_rules import OPTIMIZERS, keras_variables

L = keras.layers
MUON = getattr(keras.optimizers, "Muon", keras.optimizers.Lion)  # which earlier versions of Keras do not have


def sequential(name="net"):
    layers = [
        keras.Input((4,)),
        L.Dense(3, name="hidden"),
        L.BatchNormalization(name="bn"),
        L.Dropout(0.5, name="drop"),
    ]
    return keras.Sequential([*layers, L.Dense(1, name="out")], name=name)


class Twice(keras.Model):
    """Two layers of one name, and a variable of its own."""

    def __init__(self):
        super().__init__(name="twice")
        self.first, self.second = L.Dense(3, name="d"), L.Dense(3, name="d")
        self.scale = keras.Variable([1.0, 2.0], name="scale")

    def call(self, x):
        return self.second(self.first(x)) * self.scale[0]


def twice():
    model = Twice()
    model(np.ones((2, 3), "f"))
    return model


def built(optimizer, model):
    optimizer.build(model.trainable_variables)
    return optimizer


def test_a_key_is_the_path():
    model = sequential()
    assert variable_keys(model.weights) == [variable.path for variable in model.weights]
    assert variable_keys(model.weights)[0] == "net/hidden/kernel"


def test_the_state_of_a_model_has_keys_after_its_weights():
    model = sequential()
    keys = list(keyed_variables(model))
    assert keys[: len(model.weights)] == variable_keys(model.weights)
    assert [key for key in keys if "seed" in key] == keys[len(model.weights) :] != []


def test_the_keys_of_seeds_do_not_depend_on_the_models_made_before():
    keys = []
    for _ in range(2):
        layers = [keras.Input((4,)), L.Dropout(0.5, name="a"), L.Dense(1, name="b"), L.Dropout(0.5, name="c")]
        keys.append(list(keyed_variables(keras.Sequential(layers, name="net"))))
    assert keys[0] == keys[1]
    assert keys[0][2:] == ["seed_generator/seed_generator_state", "seed_generator/seed_generator_state_1"]


def test_two_variables_of_one_path_have_two_keys():
    keys = variable_keys(twice().weights)
    assert keys == ["scale", "twice/d/kernel", "twice/d/bias", "twice/d/kernel_1", "twice/d/bias_1"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a b", "a_b"),
        ("größe", "gr_e"),
        ("_hidden", "v_hidden"),
        ("global_step", "global_step_1"),
        ("optimizer", "optimizer_1"),
        ("ps_train", "model/ps_train"),
        ("a:0", "a_0"),
    ],
)
def test_a_name_that_tensorflow_does_not_take_is_replaced(name, key):
    assert variable_keys([keras.Variable(0.0, name=name)]) == [key]


def test_keys_differ_by_more_than_case_and_do_not_depend_on_later_variables():
    variables = [keras.Variable(0.0, name=name) for name in ("W", "w", "w_1", "w")]
    assert variable_keys(variables) == ["W", "w_1", "w_1_1", "w_2"]
    assert variable_keys(variables[:2]) == ["W", "w_1"]


def test_slots_are_named_by_their_kind():
    model = sequential()
    keys = slot_keys(built(keras.optimizers.Adam(), model), model.weights).values()
    assert {"net/hidden/kernel/momentum", "net/out/bias/velocity", "optimizer/iteration"} <= set(keys)


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True, gradient_accumulation_steps=2),
        lambda: keras.optimizers.Adam(amsgrad=True),
        lambda: keras.optimizers.Adafactor(),
        lambda: MUON(),
        lambda: keras.optimizers.Ftrl(),
        lambda: keras.optimizers.Nadam(),
        lambda: keras.optimizers.RMSprop(centered=True, momentum=0.9),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
        lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    ],
)
@pytest.mark.parametrize("model", [sequential, twice])
def test_slots_of_two_optimizers_have_the_same_unique_keys(make, model):
    model = model()
    first, second = (built(make(), model) for _ in range(2))
    keys = [slot_keys(optimizer, model.weights) for optimizer in (first, second)]
    assert list(keys[0].values()) == list(keys[1].values())
    assert list(keys[0]) == [id(variable) for variable in first.variables]
    all_keys = [*keys[0].values(), *variable_keys(model.weights)]
    assert len({key.lower() for key in all_keys}) == len(all_keys)
    assert all(re.fullmatch(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*", key) for key in all_keys)


@pytest.mark.parametrize("model", [sequential, twice])
def test_each_slot_has_its_owner(model):
    model = model()
    for kind in (keras.optimizers.Adam, keras.optimizers.Adafactor, MUON):
        optimizer = built(kind(), model)
        names = slot_names(optimizer, model.weights)
        lists = [
            v for v in vars(optimizer).values() if isinstance(v, list) and len(v) == len(model.trainable_variables)
        ]
        owned = {id(v): i for slots in lists for i, v in enumerate(slots) if id(v) in names}
        assert {slot for slot, (owner, _) in names.items() if owner is not None} == owned.keys() != set()
        for slot, i in owned.items():
            assert model.weights[names[slot].owner] is model.trainable_variables[i]


def test_the_variables_without_owner_are_named_by_their_attribute_or_wrapper():
    model = sequential()
    nadam = built(keras.optimizers.Nadam(), model)
    assert SlotName(None, "u_product") in slot_names(nadam, model.weights).values()
    wrapped = built(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), model)
    names = [name for _, name in slot_names(wrapped, model.weights).values()]
    assert names == [
        "iteration", "learning_rate", "step_counter", "dynamic_scale", "inner/iteration", "inner/learning_rate",
    ]  # fmt: skip


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="this Keras has none")
def test_an_optimizer_of_several_names_the_variables_of_each():
    model = sequential()
    chosen = {"kernel": keras.optimizers.Adam(), "bias": keras.optimizers.SGD(momentum=0.9)}
    other = keras.optimizers.SGD()
    multi = keras.optimizers.MultiOptimizer(lambda v: chosen.get(v.path.rsplit("/", 1)[1], other))
    keys = slot_keys(built(multi, model), model.weights)
    assert {"net/hidden/kernel/velocity", "net/hidden/bias/momentum", "optimizer/0/iteration"} <= set(keys.values())
    assert len(keys) == len(multi.variables)


def test_as_many_variables_of_the_optimizer_as_of_the_model_are_not_mistaken_for_slots():
    model = keras.Sequential([keras.Input((4,)), L.Dense(1)])
    optimizer = built(keras.optimizers.SGD(), model)
    assert len(optimizer.variables) == len(model.trainable_variables)
    assert list(slot_names(optimizer, model.weights).values()) == [
        (None, "iteration"),
        (None, "learning_rate"),
    ]


class Own(keras.optimizers.Optimizer):
    """An optimizer that keeps its slots in a dictionary, as no optimizer of Keras does."""

    def build(self, variables):
        super().build(variables)
        self.slots = {v.path: self.add_variable_from_reference(v, "drift") for v in variables}


def test_a_slot_that_no_list_holds_is_known_by_its_name():
    model = sequential()
    keys = slot_keys(built(Own(0.1), model), model.weights)
    assert {"net/hidden/kernel/drift", "net/out/kernel/drift"} <= set(keys.values())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_ps_has_each_slot_under_the_key_by_which_a_model_looks_for_it(name):
    variables = keras_variables()
    optimizer = built(OPTIMIZERS[name](), types.SimpleNamespace(trainable_variables=list(variables.values())))
    on_ps = trace_rules(optimizer, list(variables.values()), list(variables)).slot_variables
    model = types.SimpleNamespace(weights=list(variables.values()), variables=[], optimizer=optimizer)
    known = keyed_slots(model)
    assert {key: id(variable) for key, variable in on_ps.items()} == {key: id(known[key]) for key in on_ps}

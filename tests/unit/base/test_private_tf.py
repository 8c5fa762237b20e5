"""The installed TensorFlow has the private names of `ps_train/base/private_tf.py`, and they do what they are for."""

from __future__ import annotations

import ast
import importlib
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import private_tf


def adam() -> Any:
    """An AdamOptimizer that has made an update."""
    optimizer = v1.train.AdamOptimizer(0.1)
    optimizer.apply_gradients([(tf.constant([1.0]), resource("w"))])
    return optimizer


def momentum() -> Any:
    return v1.train.MomentumOptimizer(0.1, 0.9)


def adagrad() -> Any:
    optimizer = v1.train.AdagradOptimizer(0.1)
    optimizer.apply_gradients([(tf.constant([1.0]), resource("w"))])
    return optimizer


def ftrl() -> Any:
    optimizer = v1.train.FtrlOptimizer(0.1)
    optimizer.apply_gradients([(tf.constant([1.0]), resource("w"))])
    return optimizer


def adagrad_da() -> Any:
    optimizer = v1.train.AdagradDAOptimizer(0.1, tf.constant(0, tf.int64))
    optimizer.apply_gradients([(tf.constant([1.0]), resource("w"))])
    return optimizer


def resource(name: str, **options: Any) -> Any:
    return v1.Variable([1.0], name=name, use_resource=True, **options)


def has(name: str, owner: Callable[[], Any]) -> Callable[[], bool]:
    return lambda: hasattr(owner(), name)


OWN_HOOK = "the settings of a program's own CheckpointSaverHook are unknown"


def keras_counts_updates() -> bool:
    import keras

    optimizer = keras.optimizers.SGD(0.5)
    return private_tf.updates_of(optimizer) is optimizer.iterations


def keras_tells_what_it_trains() -> bool:
    import keras

    optimizer, variable = keras.optimizers.SGD(0.5), keras.Variable(1.0)
    optimizer.build([variable])
    return [id(one) for one in private_tf.trained_by(optimizer)] == [id(variable)]


def saver_hook() -> Any:
    return v1.train.CheckpointSaverHook("m", save_steps=1)


def reports_a_name_that_was_assigned() -> bool:
    variable = resource("w")
    variable._handle_name = "other:0"
    return variable.name == "other:0" and variable.op.name == "w"


def capture_gives_a_tensor_of_the_function() -> bool:
    outer, found = tf.constant(1.0), []

    @tf.function
    def inner() -> tf.Tensor:
        graph = v1.get_default_graph()
        found.append(graph.capture(outer).graph is graph)
        return tf.constant(0)

    inner.get_concrete_function()
    return found == [True]


def copies_have_their_colocation() -> bool:
    variable = resource("w")
    with v1.colocate_with(variable.op):
        return private_tf.COLOCATION in tf.constant(0).op.node_def.attr


def a_condition_says_how() -> bool:
    result = v1.cond(v1.placeholder(tf.bool, []), lambda: tf.constant(1), lambda: tf.constant(2))
    return "_lower_using_switch_merge" in result.op.inputs[0].op.node_def.attr


def custom_gradients_are_marked() -> bool:
    @tf.custom_gradient
    def twice(x: tf.Tensor) -> Any:
        return 2 * x, lambda dy: dy

    mark = twice(tf.constant(1.0)).op.node_def.attr["_gradient_op_type"].s
    return bool(mark.startswith(b"CustomGradient-"))


def functions_have_a_name_with(prefix: str) -> Callable[[], bool]:
    def found() -> bool:
        weight = resource("w")
        with tf.GradientTape() as tape:
            y = tf.function(lambda x: tf.sin(x) * weight)(tf.constant([1.0]))
        tape.gradient(y, weight)
        library = v1.get_default_graph().as_graph_def().library
        return any(function.signature.name.startswith(prefix) for function in library.function)

    return found


def tells_a_variable_by_value(flag: str) -> bool:
    from tensorflow.python.ops.resource_variable_ops import is_resource_variable

    return is_resource_variable(types.SimpleNamespace(**{flag: True})) and not is_resource_variable(1)


def stands_for_a_tensor_in_a_call(method: str) -> bool:
    tensor = tf.constant(1.0)
    return v1.get_default_graph().as_graph_element(types.SimpleNamespace(**{method: lambda: tensor})) is tensor


def stands_for_a_tensor_in_operations(method: str) -> bool:
    tensor = tf.constant(1.0)
    kind = type("Value", (), {method: lambda self, dtype=None, name=None: tensor})
    return tf.convert_to_tensor(kind()) is tensor


def keras_can_reset_its_names() -> bool:
    import keras
    from keras.src.utils import naming

    def name() -> str:
        return str(keras.layers.Dense(1).name)

    naming.reset_uids()
    first, second = name(), name()
    naming.reset_uids()
    return first == name() != second


def keras_tells_the_restored_epoch() -> bool:
    import keras

    return keras.Sequential()._initial_epoch is None


def keras_counts_batches_between_saves() -> bool:
    import keras

    callbacks = keras.callbacks.ModelCheckpoint("a.keras", save_freq=5), keras.callbacks.BackupAndRestore("a", 5)
    for callback in callbacks:
        callback.on_train_batch_end(0)
    return [callback._batches_seen_since_last_saving for callback in callbacks] == [1, 1]


def shared_column() -> Any:
    items = tf.feature_column.sequence_categorical_column_with_identity("ids", 3)
    return v1.feature_column.shared_embedding_columns([items], 2)[0]


def old_columns() -> Any:
    return importlib.import_module("tensorflow.python.feature_column.feature_column")


def sync() -> Any:
    return v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 1, 2)


def checkpoint_utils() -> Any:
    return importlib.import_module("tensorflow.python.training.checkpoint_utils")


def variable_store() -> Any:
    return importlib.import_module("tensorflow.python.ops.variable_scope")._get_default_variable_store()


class Symbol(NamedTuple):
    """A private name.

    Attributes:
      name: the name.
      loss: the consequence of its absence.
      is_there: returns True if the installed TensorFlow has it; called in a new graph.
    """

    name: str
    loss: str
    is_there: Callable[[], bool]


OPTIMIZER = "ps_train.optimizers and a model's own optimizers"
NO_CHECKPOINT = "init_from_checkpoint is refused in a model"
OPERATION, BASE = (lambda: tf.Operation), (lambda: v1.train.Optimizer)
SYMBOLS = [
    Symbol("_update_input", "lookups of a step cannot be answered together", has("_update_input", OPERATION)),
    Symbol(
        "_unsafe_unfinalize",
        "a call of several steps could not be added to a running graph",
        has("_unsafe_unfinalize", tf.Graph),
    ),
    Symbol("_add_control_inputs", "a refused call could consume a batch", has("_add_control_inputs", OPERATION)),
    Symbol(
        "_remove_all_control_inputs",
        "a local step reads a batch of its own beside the one that it uses",
        has("_remove_all_control_inputs", OPERATION),
    ),
    Symbol("_do_call", "errors of steps do not name the user's line", has("_do_call", lambda: v1.Session)),
    Symbol("_set_attr", "each step of a following codec runs nodes of all codecs", has("_set_attr", OPERATION)),
    Symbol(
        "_lower_using_switch_merge", "each step of a following codec runs nodes of all codecs", a_condition_says_how
    ),
    Symbol("_gradient_op_type", "lost custom gradients are not noticed", custom_gradients_are_marked),
    Symbol("CustomGradient-", "lost custom gradients are not noticed", custom_gradients_are_marked),
    Symbol("capture", "an optimizer that touches whole tables is not refused", capture_gives_a_tensor_of_the_function),
    Symbol(
        "_get_control_flow_context",
        "an update in a branch is made at every step",
        has("_get_control_flow_context", lambda: tf.Graph),
    ),
    Symbol("_handle_name", "slots of a model's state have other names", reports_a_name_that_was_assigned),
    Symbol("_slots", "every built update makes slots of its own", has("_slots", adam)),
    Symbol("_non_slot_dict", "every built update makes powers of beta of its own", has("_non_slot_dict", adam)),
    Symbol(
        "_resource_apply_sparse_duplicate_indices",
        "duplicate rows are summed again",
        has("_resource_apply_sparse_duplicate_indices", BASE),
    ),
    Symbol(
        "_get_or_make_slot_with_initializer",
        "RowWiseAdagrad has no accumulators",
        has("_get_or_make_slot_with_initializer", BASE),
    ),
    Symbol("_learning_rate_tensor", "Adagrad has no rate", has("_learning_rate_tensor", adagrad)),
    *(
        Symbol(name, "FTRL loses values in local steps", has(name, ftrl))
        for name in (
            "_l1_regularization_strength_tensor",
            "_adjusted_l2_regularization_strength_tensor",
            "_learning_rate_power_tensor",
        )
    ),
    *(
        Symbol(name, "AdagradDA loses values in local steps", has(name, adagrad_da))
        for name in ("_l1_regularization_strength", "_l2_regularization_strength", "_global_step_on_worker")
    ),
    Symbol("_momentum", "top_k does not know the momentum", has("_momentum", momentum)),
    Symbol("_use_nesterov", "top_k does not know the kind of momentum", has("_use_nesterov", momentum)),
    Symbol("_learning_rate", "top_k has no rate for its optimizer", has("_learning_rate", momentum)),
    Symbol("_lr_t", "LazyAdam has no rate", has("_lr_t", adam)),
    Symbol("_beta1_t", "LazyAdam has no beta1", has("_beta1_t", adam)),
    Symbol("_beta2_t", "LazyAdam has no beta2", has("_beta2_t", adam)),
    Symbol("_epsilon_t", "LazyAdam has no epsilon", has("_epsilon_t", adam)),
    Symbol("_get_beta_accumulators", "LazyAdam has no powers of beta", has("_get_beta_accumulators", adam)),
    *(
        Symbol(name, "optimizers of tf.contrib.opt make no variables", has(name, BASE))
        for name in ("_zeros_slot", "_create_non_slot_variable", "_get_non_slot_variable")
    ),
    *(
        Symbol(name, "optimizers of tf.contrib.opt are not called", has(name, BASE))
        for name in ("_apply_dense", "_apply_sparse", "_finish")
    ),
    Symbol("_create_slots", f"{OPTIMIZER} get no slots", has("_create_slots", BASE)),
    Symbol(
        "_initial_accumulator_value",
        "ProximalAdagrad has no start for rows of local steps",
        has("_initial_accumulator_value", lambda: v1.train.ProximalAdagradOptimizer(0.1)),
    ),
    Symbol("_prepare", f"{OPTIMIZER} get no rate", has("_prepare", BASE)),
    Symbol("_resource_apply_dense", f"{OPTIMIZER} are not called", has("_resource_apply_dense", BASE)),
    Symbol("_resource_apply_sparse", f"{OPTIMIZER} are not called for rows", has("_resource_apply_sparse", BASE)),
    Symbol("_shared_name", "a moving average has another name", has("_shared_name", lambda: resource("w"))),
    Symbol("_save_slice_info", "slots of a trained variable fail", has("_save_slice_info", lambda: resource("w"))),
    Symbol(
        "_should_act_as_resource_variable",
        "slots of a trained variable are made by reference",
        lambda: tells_a_variable_by_value("_should_act_as_resource_variable"),
    ),
    Symbol(
        "_as_graph_element",
        "a trained variable cannot be fetched or waited for",
        lambda: stands_for_a_tensor_in_a_call("_as_graph_element"),
    ),
    Symbol(
        "__tf_tensor__",
        "a trained variable cannot be used in operations",
        lambda: stands_for_a_tensor_in_operations("__tf_tensor__"),
    ),
    Symbol("_trainable_variables", "gradients without variables are unknown", keras_tells_what_it_trains),
    Symbol("_iterations", "a Keras optimizer does not know its step", keras_counts_updates),
    Symbol("_opt", "a SyncReplicasOptimizer is not understood", has("_opt", sync)),
    Symbol("_replicas_to_aggregate", "there are no backup workers", has("_replicas_to_aggregate", sync)),
    Symbol("_num_steps", "a StopAtStepHook overshoots", has("_num_steps", lambda: v1.train.StopAtStepHook(1))),
    Symbol("_last_step", "a StopAtStepHook overshoots", has("_last_step", lambda: v1.train.StopAtStepHook(1))),
    Symbol(
        "_get_sequence_dense_tensor", "sequences share no embedding", has("_get_sequence_dense_tensor", shared_column)
    ),
    Symbol("_var_scope_name", "sequences share no embedding", has("_var_scope_name", shared_column)),
    Symbol("_variable_shape", "sequences share no embedding", has("_variable_shape", shared_column)),
    Symbol("_LazyBuilder", "sequences share no embedding", has("_LazyBuilder", old_columns)),
    *(
        Symbol(name, "a SyncReplicasOptimizer loses its averages", has(name, sync))
        for name in ("_variable_averages", "_variables_to_average")
    ),
    Symbol("_total_num_replicas", "there are no backup workers", has("_total_num_replicas", sync)),
    Symbol(
        "_listeners",
        "saving listeners do not hear of the saves of the user's own hook",
        has("_listeners", saver_hook),
    ),
    Symbol(
        "_timer",
        "checkpoints after a resume are not at multiples",
        has("_timer", saver_hook),
    ),
    *(Symbol(name, OWN_HOOK, has(name, saver_hook)) for name in ("_save_path", "_saver", "_scaffold")),
    *(Symbol(name, OWN_HOOK, has(name, lambda: saver_hook()._timer)) for name in ("_every_secs", "_every_steps")),
    Symbol(
        "_gather_saveables_for_checkpoint",
        "a Saver of a trained variable never ends",
        has("_gather_saveables_for_checkpoint", lambda: resource("w")),
    ),
    Symbol("_init_from_checkpoint", NO_CHECKPOINT, has("_init_from_checkpoint", checkpoint_utils)),
    Symbol(
        "_set_variable_or_list_initializer", NO_CHECKPOINT, has("_set_variable_or_list_initializer", checkpoint_utils)
    ),
    Symbol("_get_default_variable_store", NO_CHECKPOINT, lambda: variable_store()._vars == {}),
    Symbol("_vars", NO_CHECKPOINT, lambda: variable_store()._vars == {}),
    Symbol("_class", "copies of a step name nodes that are not copied", copies_have_their_colocation),
    Symbol("__inference", "a step draws the same numbers in each copy", functions_have_a_name_with("__inference")),
    Symbol("__forward", "a step draws the same numbers in each copy", functions_have_a_name_with("__forward")),
    Symbol("keras.src", "Keras is imported in every process", keras_can_reset_its_names),
    Symbol("_initial_epoch", "BackupAndRestore restores weights but no epoch", keras_tells_the_restored_epoch),
    Symbol(
        "_batches_seen_since_last_saving",
        "a ModelCheckpoint with save_freq saves old weights",
        keras_counts_batches_between_saves,
    ),
    Symbol("keras.src.utils.naming", "layers get other names in the next graph", keras_can_reset_its_names),
]


def check(symbol: Symbol) -> None:
    """Fails with a message that names the symbol and what breaks without it."""
    message = f"TensorFlow {tf.__version__} has no {symbol.name} as ps_train/base/private_tf.py uses it: {symbol.loss}"
    try:
        with tf.Graph().as_default():
            is_there = symbol.is_there()
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise AssertionError(message) from error
    assert is_there, message


@pytest.mark.parametrize("symbol", SYMBOLS, ids=lambda symbol: symbol.name)
def test_the_installed_tensorflow_has(symbol: Symbol) -> None:
    check(symbol)


def fails() -> bool:
    raise AttributeError("gone")


@pytest.mark.parametrize("is_there", [lambda: False, fails])
def test_the_message_names_the_symbol_that_vanished_and_what_breaks(is_there: Callable[[], bool]) -> None:
    with pytest.raises(AssertionError, match=rf"TensorFlow {tf.__version__} has no _gone .*: nothing works"):
        check(Symbol("_gone", "nothing works", is_there))


def names_in(source: str) -> set[str]:
    """The private names that a source uses: attributes, parameters of `getattr`, and texts that begin with `_`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode()
            if (text.startswith("_") or text in {symbol.name for symbol in SYMBOLS}) and " " not in text:
                found.add(text)
    return found


def test_every_private_name_is_looked_for() -> None:
    used = names_in(pathlib.Path(private_tf.__file__).read_text())
    assert {"_update_input", "_class", "CustomGradient-", "__tf_tensor__"} <= used
    assert used | {"capture"} == {symbol.name for symbol in SYMBOLS}


class TestUse:
    """The functions do what they are for."""

    @pytest.fixture(autouse=True)
    def graph(self) -> Iterator[tf.Graph]:
        with tf.Graph().as_default() as graph:
            yield graph

    @staticmethod
    def run(fetches: Any) -> Any:
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run(fetches)

    def test_an_input_is_replaced(self) -> None:
        result = tf.identity(tf.constant(1.0))
        private_tf.set_input(result.op, 0, tf.constant(2.0))
        assert self.run(result) == 2.0

    def test_a_resource_variable_has_the_base_by_which_lookups_know_it(self) -> None:
        assert isinstance(resource("w"), private_tf.resource_variable_base())

    def test_a_cache_has_the_features_that_columns_read(self) -> None:
        column = tf.feature_column.numeric_column("x")
        dense = column.get_dense_tensor(private_tf.feature_cache({"x": tf.constant([[2], [3]])}), None)
        assert dense.dtype == tf.float32 and dense.shape == [2, 1]

    def test_tf_slim_finds_the_class_of_tensors_where_it_was_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tensorflow.python.framework import ops

        monkeypatch.delattr(ops, "Tensor", raising=False)
        private_tf.give_back_tensor()
        assert isinstance(tf.constant(1), ops.Tensor)
        monkeypatch.delattr(ops, "Tensor")

    def test_additions_of_reference_variables_lock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tensorflow.python.ops import gen_state_ops

        for name in ("assign_add", "assign_sub"):
            monkeypatch.setattr(gen_state_ops, name, getattr(gen_state_ops, name))  # gives it back
        private_tf.lock_additions.__wrapped__()
        counter = v1.Variable(0, use_resource=False)
        made = [v1.assign_add(counter, 1), counter.assign_sub(1), v1.assign_sub(counter, 1, use_locking=False)]
        assert all(each.op.get_attr("use_locking") for each in made)

    def test_a_sync_optimizer_has_its_arguments(self) -> None:
        inner = v1.train.GradientDescentOptimizer(0.1)
        outer = v1.train.SyncReplicasOptimizer(inner, replicas_to_aggregate=3, total_num_replicas=4)
        assert private_tf.sync_settings(outer) == (inner, 3, 4, None, None)

    def test_a_shared_column_has_its_scope_and_width(self) -> None:
        found = private_tf.shared_sequence(shared_column())
        assert found is not None and found[:2] == ("ids_shared_embedding", 2)
        assert private_tf.shared_sequence(tf.feature_column.numeric_column("x")) is None

    def test_a_hook_that_stops_has_its_arguments(self) -> None:
        assert private_tf.stop_settings(v1.train.StopAtStepHook(num_steps=3)) == (3, None)
        assert private_tf.stop_settings(v1.train.StopAtStepHook(last_step=4)) == (None, 4)

    def test_what_init_from_checkpoint_would_do_is_told_and_only_in_the_body(self, tmp_path: pathlib.Path) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            weight = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
            session.run(weight.initializer)
            path = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
        told: list[Any] = []
        with tf.Graph().as_default():
            weight, first = v1.get_variable("w", [2], use_resource=True), tf.zeros([2])
            other = v1.Variable(first, name="other")
            for take in (lambda *value: told.append(value), None):
                with private_tf.checkpoint_values_taken(take, lambda: {"known": other}):
                    v1.train.init_from_checkpoint(path, [("w", "w"), ("w", [weight]), ("w", "known")])
            assert told == [(weight, path, "w"), (weight, path, "w"), (other, path, "w")]
            with pytest.raises(ValueError, match="Assignment map"):
                v1.train.init_from_checkpoint(path, {"w": "known"})
            v1.train.init_from_checkpoint(path, {"w": "w"})
            with v1.Session() as session:
                session.run(weight.initializer)
                assert session.run(weight).tolist() == [1.0, 2.0]
        assert len(told) == 3

    def test_a_functions_graph_has_its_inputs_and_outputs(self) -> None:
        with tf.init_scope():
            made = tf.function(lambda x: x + 2.0).get_concrete_function(tf.TensorSpec([]))
            graph = private_tf.function_graph(made.function_def)
        with tf.Graph().as_default():
            found = tf.graph_util.import_graph_def(
                graph.as_graph_def(), {graph.inputs[0].name: tf.constant(3.0)}, [graph.outputs[0].name]
            )
            assert self.run(found) == [5.0]

    def test_an_operation_runs_after_others(self) -> None:
        variable = resource("w")
        before = variable.assign([5.0], read_value=False)
        read = variable.read_value()
        private_tf.add_control_inputs(read.op.inputs[0].op, [before])  # a copy of what is read
        assert self.run(read) == [5.0]

    def test_a_variable_reports_another_name_and_slots_have_it(self) -> None:
        variable = resource("state/mean")
        private_tf.rename_variable(variable, "mean")
        assert variable.name == "mean:0" and variable.op.name == "state/mean"

    def test_a_listener_is_added_once(self) -> None:
        hook, listener = v1.train.CheckpointSaverHook("m", save_steps=1), v1.train.CheckpointSaverListener()
        for _ in range(2):
            private_tf.add_saving_listener(hook, listener)
        assert hook._listeners == [listener]

    def test_the_settings_of_a_savers_hook_are_read(self) -> None:
        hook = v1.train.CheckpointSaverHook("m", save_secs=5, scaffold=v1.train.Scaffold())
        assert private_tf.saver_hook_settings(hook) == ("m/model.ckpt", 5, None, None, ())
        assert private_tf.saver_hook_settings(saver_hook()).save_steps == 1

    def test_a_condition_stays_one_node_where_it_is_kept_whole(self) -> None:
        def nodes_that_ran(is_whole: bool) -> int:
            with tf.Graph().as_default(), v1.Session() as session:
                value = v1.placeholder(tf.float32, [])
                result = v1.cond(value > 0, lambda: tf.exp(tf.tanh(value)), lambda: tf.sin(value))
                if is_whole:
                    private_tf.keep_whole(result)
                options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
                found = session.run(result, {value: -1.0}, options, metadata)
                np.testing.assert_allclose(found, np.sin(-1.0), rtol=1e-6)
                return sum(len(graph.node) for graph in metadata.partition_graphs)

        assert nodes_that_ran(True) < nodes_that_ran(False)

    def test_a_custom_gradient_is_told_from_an_identity(self) -> None:
        custom = tf.grad_pass_through(tf.sin)(tf.constant(1.0))
        assert private_tf.has_custom_gradient(custom.op)
        assert private_tf.GRADIENT_NAME in custom.op.node_def.attr
        assert not private_tf.has_custom_gradient(tf.identity_n([tf.constant(1.0)])[0].op)

    def test_a_tensor_is_captured_only_by_a_function(self) -> None:
        outer, graph = tf.constant(1.0), v1.get_default_graph()
        assert private_tf.capture(graph, outer) is outer

        @tf.function
        def inner() -> tf.Tensor:
            captured = private_tf.capture(v1.get_default_graph(), outer)
            assert captured is not outer and captured.graph is v1.get_default_graph()
            return captured + 1

        assert self.run(inner()) == 2.0

    def test_two_optimizers_share_slots(self) -> None:
        first, second, variable = v1.train.MomentumOptimizer(0.1, 0.9), v1.train.MomentumOptimizer(0.1, 0.9), None
        private_tf.share_slots(first, first)
        private_tf.share_slots(second, first)
        variable = resource("w")
        for optimizer in (first, second):
            optimizer.apply_gradients([(tf.constant([1.0]), variable)])
        assert [v.op.name for v in v1.global_variables()] == ["w", "w/Momentum"]

    def test_duplicate_rows_are_summed_unless_it_is_skipped(self) -> None:
        calls = []

        class Recording(v1.train.AdagradOptimizer):
            def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
                calls.append(indices)
                return tf.no_op()

        rows = tf.constant([0, 0])
        for skips in (False, True):
            optimizer = Recording(0.1)
            if skips:
                private_tf.skip_deduplication(optimizer)
            optimizer.apply_gradients([(tf.IndexedSlices(tf.ones([2]), rows), resource("w"))])
        assert [indices is rows for indices in calls] == [False, True]

    def test_an_optimizer_with_a_way_of_its_own_keeps_it(self) -> None:
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        before = optimizer._resource_apply_sparse_duplicate_indices
        private_tf.skip_deduplication(optimizer)
        assert optimizer._resource_apply_sparse_duplicate_indices == before

    def test_a_slot_has_its_shape_and_is_made_once(self) -> None:
        optimizer, variable = v1.train.GradientDescentOptimizer(0.1), v1.Variable(np.ones((3, 2)), use_resource=True)
        for _ in range(2):
            private_tf.make_slot(optimizer, variable, v1.constant_initializer(0.5), variable.shape[:1], "sums")
        assert self.run(optimizer.get_slot(variable, "sums")).tolist() == [0.5] * 3
        assert len(v1.global_variables()) == 2

    def test_the_accumulators_of_proximal_adagrad_begin_with_their_start(self) -> None:
        optimizer = v1.train.ProximalAdagradOptimizer(0.1, initial_accumulator_value=0.3)
        private_tf.make_accumulators_of_any_length(optimizer, v1.constant_initializer)
        variable = resource("w")
        optimizer.apply_gradients([(tf.constant([1.0]), variable)])
        slot = optimizer.get_slot(variable, "accumulator")
        assert slot.op.name == "w/ProximalAdagrad" and slot.shape == [1]
        assert self.run(slot.initializer.inputs[1]) == np.float32(0.3)

    def test_the_terms_of_optimizers_are_those_that_were_given(self) -> None:
        terms = private_tf.adam_terms(adam())
        assert self.run(private_tf.adagrad_rate(adagrad())) == np.float32(0.1)
        assert self.run([*terms]) == [np.float32(value) for value in (0.1, 0.9, 0.999, 1e-8, 0.9, 0.999)]
        nesterov = v1.train.MomentumOptimizer(0.2, 0.7, use_nesterov=True)
        assert private_tf.momentum_of(nesterov) == (0.7, True)
        assert private_tf.learning_rate_of(nesterov) == 0.2

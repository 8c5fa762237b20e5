"""Private names of TensorFlow, and of Keras: each one that the package uses, although it is not public API.

No other module uses such a name, as `tests/unit/base/test_private_tf_uses.py` checks.
`tests/unit/base/test_private_tf.py` looks for each name in the installed TensorFlow, and says what breaks without it.

All names were seen in TensorFlow 2.16.1, 2.18.1, 2.20.0 and 2.21.0, by these tests.  The import of this module does not
import TensorFlow.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import tensorflow as tf

OVERRIDDEN = {
    "_apply_dense": "Optimizer: applies a dense gradient to a reference variable",
    "_apply_sparse": "Optimizer: applies the gradient of some rows of a reference variable, each of which occurs once",
    "_create_slots": "Optimizer: makes the slots before the first update",
    "_finish": "Optimizer: returns what follows after all updates of a step",
    "_get_beta_accumulators": "AdamOptimizer: the powers of beta1 and beta2 in an update",
    "_prepare": "Optimizer: makes tensors of the hyperparameters before every update",
    "_resource_apply_dense": "Optimizer: applies a dense gradient",
    "_resource_apply_sparse": "Optimizer: applies the gradient of some rows, each of which occurs once",
    "_resource_apply_sparse_duplicate_indices": "Optimizer: applies the gradient of rows that may occur several times",
    "_shared_name": "Variable: the name of its slots and of its moving average",
    "_save_slice_info": "Variable: None if it is not a slice; read when its slots are made",
    "_gather_saveables_for_checkpoint": "Variable: its value for a Saver; a Saver knows other classes by their type",
    "_should_act_as_resource_variable": "Variable: present if it is read by value; decides how its slots are made",
    "_as_graph_element": "the tensor or operation that stands for an object in `session.run` and control dependencies",
    "__tf_tensor__": "the tensor that stands for an object in operations",
}
"""Names that TensorFlow looks for in an object; classes of this package define them under exactly these names.

The public API has no optimizer or variable that can be subclassed without them.
"""

COLOCATION = "_class"
"""Attribute of a node: names of the nodes on whose device it is placed.  A copied node must lose it.

The public API sets it (`Graph.colocate_with`) but does not remove it.
"""

FUNCTION_PREFIXES = ("__inference", "__forward")
"""Beginnings of the names of a `tf.function`'s graphs.  An operation of such a type is a call of the function.

The public API has no test for such an operation.
"""

KERAS_CODE = "keras.src"
"""Package with the code of Keras.  While it cannot be imported, TensorFlow's import is done without Keras.

The public package `keras` must be found, since TensorFlow adds it to its own search path.
"""

RESOURCE_CODE = "tensorflow.python.ops.resource_variable_ops"
"""Module that finds the handle of a variable by its name when it makes the variable of a description.

The public API (`tf.Variable.from_proto`) makes the variable, and has no other way to the handle.
"""

GRADIENT_NAME = "_gradient_op_type"
"""Name of the attribute that names a node's gradient function, which only the process that made it knows.

The public API sets it (`tf.Graph.gradient_override_map`), and does not name it.
"""

_LOWERED = "_lower_using_switch_merge"
_CUSTOM_GRADIENT = b"CustomGradient-"
_KERAS_NAMES = "keras.src.utils.naming"


def set_input(op: tf.Operation, index: int, value: tf.Tensor) -> None:
    """Replaces an input of an operation; the value must not depend on the operation.

    The public API connects inputs only when an operation is made.  TensorFlow's own loops are built in this way.
    """
    op._update_input(index, value)


def add_control_inputs(op: tf.Operation, before: Sequence[tf.Operation]) -> None:
    """Makes an operation that already exists run after others.

    Public `tf.control_dependencies` applies only to operations that are made later.
    """
    op._add_control_inputs(before)


def replace_control_inputs(op: tf.Operation, before: Sequence[tf.Operation]) -> None:
    """Makes an operation that already exists run after these operations, and after no others but those of its inputs.

    The public API has no way to remove a control input.
    """
    op._remove_all_control_inputs()
    op._add_control_inputs(list(before))


def context_of(op: tf.Operation) -> Any:
    """Returns the loop or condition of TensorFlow 1 to which an operation belongs; None for none."""
    return op._get_control_flow_context()


def keep_whole(result: tf.Tensor | tf.Operation) -> None:
    """Keeps the condition or loop of which this is a result one node, which runs functions.

    Else TensorFlow puts the nodes of all branches into the graph before it runs, where each takes part in every step;
    and it runs all nodes of a graph with branches or loops in a slower way, which knows that some may not run.  A
    machine with GPUs keeps that: the node would run on the GPU, where not every operation of a branch can.  The public
    API has no choice.
    """
    import tensorflow as tf

    op = result if isinstance(result, tf.Operation) else result.op
    while op.type == "Identity":
        op = op.inputs[0].op
    if op.type in ("If", "StatelessIf", "While") and not tf.config.list_physical_devices("GPU"):
        op._set_attr(_LOWERED, tf.compat.v1.AttrValue(b=False))


@contextlib.contextmanager
def extensible(graph: tf.Graph) -> Iterator[None]:
    """Makes the graph the default one, to which the body may add operations although it is finalized.

    The public API has no way back from `Graph.finalize`.  TensorFlow sends new operations with a session's next call.
    """
    was_finalized = graph.finalized
    if was_finalized:
        graph._unsafe_unfinalize()
    try:
        with graph.as_default():
            yield
    finally:
        if was_finalized:
            graph.finalize()


def has_custom_gradient(op: tf.Operation) -> bool:
    """Returns True if `tf.custom_gradient` made the operation, which joins results and arguments of a function.

    The public API does not tell such an operation from the user's own `tf.identity_n`.
    """
    return op.type == "IdentityN" and op.node_def.attr[GRADIENT_NAME].s.startswith(_CUSTOM_GRADIENT)


def capture(graph: tf.Graph, tensor: tf.Tensor) -> tf.Tensor:
    """Returns a graph's own tensor for a tensor of another graph: the input of a function for it.

    The graph must be that of a function if it is not the tensor's own.  The class of such graphs is private, and the
    public API returns them as `tf.Graph`.
    """
    return tensor if tensor.graph is graph else graph.capture(tensor)


def control_flow_context(graph: tf.Graph) -> Any:
    """Returns the branch or loop of TensorFlow 1's control flow that a graph is building; None outside of them.

    The public API tells functions (`tf.inside_function`), and not these.
    """
    return graph._get_control_flow_context()


def rename_variable(variable: tf.Variable, name: str) -> None:
    """Makes a variable report a name; its operations keep theirs.

    TensorFlow derives names of other variables from it.  With the public API a variable's name is that of its
    operation, which is unique in the graph, so two variables cannot report one name.
    """
    variable._handle_name = f"{name}:0"


def share_slots(optimizer: Any, first: Any) -> None:
    """Makes an optimizer use the slots of `first`, which may be the optimizer itself; it then has empty ones.

    An optimizer makes slots of its own in the public API, so a second update could not use those of the first.
    """
    if optimizer is first:
        optimizer._slots, optimizer._non_slot_dict = {}, {}
    else:
        optimizer._slots, optimizer._non_slot_dict = first._slots, first._non_slot_dict


def skip_deduplication(optimizer: Any) -> None:
    """Turns off the summing of duplicate rows, unless the optimizer's class has a way of its own.

    The public API has no switch for it.
    """
    import tensorflow.compat.v1 as v1

    usual = v1.train.Optimizer._resource_apply_sparse_duplicate_indices
    if type(optimizer)._resource_apply_sparse_duplicate_indices is usual:
        optimizer._resource_apply_sparse_duplicate_indices = optimizer._resource_apply_sparse


def create_slots(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes an optimizer make the slots of variables, unless it has them already.

    In the public API it makes them when gradients are applied.
    """
    optimizer._create_slots(variables)


def make_accumulators_of_any_length(optimizer: Any, constant: Callable[[float], Any]) -> None:
    """Makes a ProximalAdagradOptimizer make its slots with an initializer.

    Its own method makes a constant of the variable's shape, which must then be known.

    Args:
      optimizer: the optimizer.
      constant: returns the initializer of a number.
    """
    start = constant(optimizer._initial_accumulator_value)

    def create(variables: Sequence[Any]) -> None:
        for variable in variables:
            make_slot(optimizer, variable, start, variable.shape, "accumulator")

    optimizer._create_slots = create


def before_updates(optimizer: Any, prepare: Callable[[Any, Any], Sequence[tf.Operation]]) -> None:
    """Makes an optimizer do something to a variable before it applies a gradient to it.

    The public API has no place for it where the slots exist and the hyperparameters are tensors.

    Args:
      optimizer: the optimizer.
      prepare: returns operations for a variable and the rows that have a gradient, None for all, after which the
        gradient is applied.
    """

    def after(apply: Callable[..., tf.Operation]) -> Callable[..., tf.Operation]:
        def applied(grad: tf.Tensor, variable: Any, *rows: tf.Tensor) -> tf.Operation:
            import tensorflow as tf

            with tf.control_dependencies(prepare(variable, rows[0] if rows else None)):
                return apply(grad, variable, *rows)

        return applied

    optimizer._resource_apply_dense = after(optimizer._resource_apply_dense)
    optimizer._resource_apply_sparse = after(optimizer._resource_apply_sparse)


def ftrl_terms(optimizer: Any) -> tuple[tf.Tensor, ...]:
    """Returns rate, l1, l2 and the power of the rate of an FtrlOptimizer within an update.

    The public API returns none of them.
    """
    return (
        optimizer._learning_rate_tensor,
        optimizer._l1_regularization_strength_tensor,
        optimizer._adjusted_l2_regularization_strength_tensor,
        optimizer._learning_rate_power_tensor,
    )


def adagrad_da_terms(optimizer: Any) -> tuple[Any, ...]:
    """Returns rate, l1, l2 and the number of the step, from 1, of an AdagradDAOptimizer within an update.

    The public API returns none of them.
    """
    return (
        optimizer._learning_rate_tensor,
        optimizer._l1_regularization_strength,
        optimizer._l2_regularization_strength,
        optimizer._global_step_on_worker,
    )


def make_slot(
    optimizer: Any, variable: Any, initializer: Any, shape: Any, name: str, dtype: Any = None, key: str = ""
) -> None:
    """Makes a variable's slot with a shape and an initializer, unless the optimizer has it already.

    The public API reads slots (`get_slot`) but does not make them.

    Args:
      optimizer: the optimizer.
      variable: the variable.
      initializer: initializer of the slot.
      shape: shape of the slot.
      name: the name by which the optimizer finds the slot.
      dtype: the slot's dtype; None for that of the variable.
      key: the slot's name under the variable's, in the graph and in checkpoints; "" for the optimizer's name.
    """
    dtype = dtype or variable.dtype.base_dtype
    optimizer._get_or_make_slot_with_initializer(variable, initializer, shape, dtype, name, key or optimizer.get_name())


def adagrad_rate(optimizer: Any) -> tf.Tensor:
    """Returns the learning rate of an AdagradOptimizer during an update; the public API does not return it."""
    return optimizer._learning_rate_tensor


def momentum_of(optimizer: Any) -> tuple[Any, bool]:
    """Returns the momentum of a MomentumOptimizer, and whether it is Nesterov's; the public API does not."""
    return optimizer._momentum, optimizer._use_nesterov


def learning_rate_of(optimizer: Any) -> Any:
    """Returns the learning rate that a MomentumOptimizer was made with; the public API does not return it."""
    return optimizer._learning_rate


class AdamTerms(NamedTuple):
    """Tensors and variables of an AdamOptimizer during an update."""

    rate: tf.Tensor
    beta1: tf.Tensor
    beta2: tf.Tensor
    epsilon: tf.Tensor
    beta1_power: tf.Variable
    beta2_power: tf.Variable


def adam_terms(optimizer: Any) -> AdamTerms:
    """Returns the terms of an AdamOptimizer during an update; the public API does not return them."""
    powers = optimizer._get_beta_accumulators()
    return AdamTerms(optimizer._lr_t, optimizer._beta1_t, optimizer._beta2_t, optimizer._epsilon_t, *powers)


def zeros_slot(optimizer: Any, variable: Any, name: str) -> Any:
    """Returns an optimizer's slot of zeros for a variable; the public API only returns slots that are there."""
    return optimizer._zeros_slot(variable, name, optimizer.get_name())


def make_variable_once(optimizer: Any, name: str, value: Any, beside: Any) -> Any:
    """Makes a variable that an optimizer has once, on the device of another; the public API makes none."""
    return optimizer._create_non_slot_variable(initial_value=value, name=name, colocate_with=beside)


def variable_once(optimizer: Any, name: str, graph: Any) -> Any:
    """Returns a variable of `make_variable_once` in a graph."""
    return optimizer._get_non_slot_variable(name, graph=graph)


def trained_by(optimizer: Any) -> list[Any]:
    """Returns the variables that a Keras optimizer was built for, in the order of gradients given without variables.

    The public API (`variables`) has only those that the optimizer made.
    """
    return list(getattr(optimizer, "inner_optimizer", optimizer)._trainable_variables)


def updates_of(optimizer: Any) -> Any:
    """Returns the variable with the number of calls of a Keras optimizer's `apply`.

    Public `iterations` is the number of real updates where the optimizer accumulates gradients, and no variable then.
    """
    return getattr(optimizer, "inner_optimizer", optimizer)._iterations


def function_graph(definition: Any) -> Any:
    """Returns the graph of a function's definition, with its `inputs` and `outputs`.

    The public API calls functions, and does not open those that a graph calls.
    """
    conversion = importlib.import_module("tensorflow.python.framework.function_def_to_graph")
    return conversion.function_def_to_graph(definition)


def add_saving_listener(hook: Any, listener: Any) -> None:
    """Adds a listener to a CheckpointSaverHook that the user has made; the public API takes listeners only then."""
    if listener not in hook._listeners:
        hook._listeners.append(listener)


def with_operation(session: Any, call: Callable[[], Any]) -> Any:
    """Makes a call of a session; its error has the operation that failed and where it was made, as those of `run` have.

    The public API has that in `run` alone, and not in what `make_callable` returns.
    """
    return session._do_call(call)


def last_save(hook: Any) -> int | None:
    """Returns the step from which a CheckpointSaverHook counts to its next save; None before the first one.

    The public API has no access to the hook's timer.
    """
    return hook._timer.last_triggered_step()


def count_saves_from(hook: Any, step: int) -> None:
    """Makes a CheckpointSaverHook count from a step to its next save; see `last_save`."""
    hook._timer.update_last_triggered_step(step)


class SaverHookSettings(NamedTuple):
    """The arguments of a CheckpointSaverHook.

    Attributes:
      path: the path of its checkpoints without the step.
      save_secs: seconds between two of them; None for none.
      save_steps: steps between two of them; None for none.
      saver: its saver, or that of its scaffold; None for that of the graph.
      listeners: the listeners of its saves.
    """

    path: str
    save_secs: float | None
    save_steps: int | None
    saver: Any
    listeners: Sequence[Any]


def saver_hook_settings(hook: Any) -> SaverHookSettings:
    """Returns the arguments of a CheckpointSaverHook that has not begun; it has no public names for them."""
    saver = hook._saver or (hook._scaffold.saver if hook._scaffold is not None else None)
    timer = hook._timer
    return SaverHookSettings(hook._save_path, timer._every_secs, timer._every_steps, saver, tuple(hook._listeners))


def as_saved_value(variable: Any, name: str) -> dict[str, Any]:
    """Returns what `_gather_saveables_for_checkpoint` returns for an object that is saved like a variable.

    The result is name to a function without arguments, which makes TensorFlow's private description of a value.
    """
    saving = importlib.import_module("tensorflow.python.training.saving.saveable_object")

    def saveable(name: str = name) -> Any:
        made = saving.SaveableObject(variable, [saving.SaveSpec(variable.value(), "", name)], name)
        made.restore = lambda *_: variable.assign(None)  # which refuses
        return made

    return {"VARIABLE_VALUE": saveable}


def reset_keras_names() -> None:
    """Resets the numbers in the names of Keras layers, which Keras counts per process; Keras may be missing.

    Public `keras.utils.clear_session` also forgets the user's state.
    """
    naming = sys.modules.get(_KERAS_NAMES)
    if naming is not None:
        naming.reset_uids()


def restored_epoch(model: Any) -> int | None:
    """Returns the epoch that a BackupAndRestore callback has restored for a Keras model; None: it has restored none.

    The callback leaves it for Keras's own `fit`; the public API does not tell it.
    """
    return model._initial_epoch


def batches_since_save(callback: Any) -> int:
    """Returns the number of batches since a Keras callback with an integer `save_freq` has saved.

    The public API does not tell it.  A user's callback with a `save_freq` may have no such number.
    """
    return getattr(callback, "_batches_seen_since_last_saving", 0)


def resource_variable_base() -> Any:
    """Returns the base class of resource variables, by which lookups know an object of which rows can be read.

    The public API has no class that is only this base.
    """
    return importlib.import_module("tensorflow.python.ops.resource_variable_ops").BaseResourceVariable


def give_back_tensor() -> None:
    """Gives the module of operations the class of tensors again, which it had once and tf-slim reads there.

    The class is public as `tf.Tensor`, and tf-slim does not know it.
    """
    import tensorflow as tf

    module: Any = importlib.import_module("tensorflow.python.framework.ops")
    if not hasattr(module, "Tensor"):
        module.Tensor = tf.Tensor


def summaries_of_writers() -> Any:
    """Returns the module of summaries that go to a writer by operations, as TensorFlow 1's `tf.contrib.summary`.

    The public names of TensorFlow 2 have other arguments, such as no `family`.
    """
    return importlib.import_module("tensorflow.python.ops.summary_ops_v2")


def lookup_tables() -> Any:
    """Returns the module of tables from values to their positions and back; the public API has the classes alone."""
    return importlib.import_module("tensorflow.python.ops.lookup_ops")


def feature_cache(features: Any) -> Any:
    """Returns the transformed features that feature columns read from; layers of Keras alone make it publicly."""
    module = importlib.import_module("tensorflow.python.feature_column.feature_column_v2")
    return module.FeatureTransformationCache(features)


class SharedSequence(NamedTuple):
    """A column of sequences that shares its embedding by the means of TensorFlow 1.

    Attributes:
      scope: name of the scope of its variable.
      width: number of values of a position.
      values: returns the values and the lengths of the sequences, given `shared_sequence_cache(features)` and whether
        the variable is trained.  The variable is made at the first call for a graph.
    """

    scope: str
    width: int
    values: Callable[[Any, bool], tuple[tf.Tensor, tf.Tensor]]


def shared_sequence(column: Any) -> SharedSequence | None:
    """Returns the parts of a column of `tf.compat.v1.feature_column.shared_embedding_columns`; None for another column.

    The public layers take such columns for batches without sequences only.
    """
    if not hasattr(column, "shared_embedding_collection_name"):
        return None
    width = column._variable_shape.num_elements()
    return SharedSequence(
        column._var_scope_name, width, lambda cache, trained: column._get_sequence_dense_tensor(cache, None, trained)
    )


def shared_sequence_cache(features: Any) -> Any:
    """Returns the transformed features that the columns of `shared_sequence` read from; see `feature_cache`."""
    return importlib.import_module("tensorflow.python.feature_column.feature_column")._LazyBuilder(features)


class SyncSettings(NamedTuple):
    """The arguments of a SyncReplicasOptimizer: the optimizer inside, the numbers of replicas, and the averages."""

    optimizer: Any
    to_aggregate: int
    total: int
    averages: Any
    averaged: Any


def sync_settings(optimizer: Any) -> SyncSettings:
    """Returns the arguments of a SyncReplicasOptimizer; TensorFlow's own class has no public names for them."""
    if hasattr(optimizer, "replicas_to_aggregate"):
        counts = optimizer.replicas_to_aggregate, optimizer.total_num_replicas
        return SyncSettings(optimizer.optimizer, *counts, optimizer.averages, optimizer.averaged)
    counts = optimizer._replicas_to_aggregate, optimizer._total_num_replicas
    return SyncSettings(optimizer._opt, *counts, optimizer._variable_averages, optimizer._variables_to_average)


class StopSettings(NamedTuple):
    """The arguments of a StopAtStepHook, of which one is None."""

    num_steps: int | None
    last_step: int | None


def stop_settings(hook: Any) -> StopSettings:
    """Returns the arguments of a StopAtStepHook that has not begun; it has no public names for them."""
    return StopSettings(hook._num_steps, hook._last_step)


_takes_checkpoint_values: contextvars.ContextVar[Any] = contextvars.ContextVar("takes_checkpoint_values", default=None)


@contextlib.contextmanager
def checkpoint_values_taken(take: Any, variables: Any) -> Iterator[None]:
    """Calls `take` for each variable that `tf.train.init_from_checkpoint` initializes in the body.

    The public function changes the initializer of a variable in its own graph, and has no way to ask what it would do.

    Args:
      take: a function of the variable, the path of the checkpoint and the name there; None: the function does nothing.
      variables: returns name to variable, for those that TensorFlow does not know by their names.
    """
    _hook_checkpoint_values()
    token = _takes_checkpoint_values.set((take, variables))
    try:
        yield
    finally:
        _takes_checkpoint_values.reset(token)


@functools.cache
def _hook_checkpoint_values() -> None:
    """Puts functions before two of TensorFlow's, once; outside of `checkpoint_values_taken` they change nothing."""
    utils = importlib.import_module("tensorflow.python.training.checkpoint_utils")
    scopes = importlib.import_module("tensorflow.python.ops.variable_scope")
    assign_all, assign = utils._init_from_checkpoint, utils._set_variable_or_list_initializer

    def init_from_checkpoint(checkpoint: Any, assignment_map: Any) -> None:
        taking = _takes_checkpoint_values.get()
        if taking is None:
            assign_all(checkpoint, assignment_map)
        elif taking[0] is not None:
            known = scopes._get_default_variable_store()._vars
            added = {name: variable for name, variable in taking[1]().items() if name not in known}
            known.update(added)
            try:
                assign_all(checkpoint, assignment_map)
            finally:
                for name in added:
                    del known[name]

    def set_initializer(variable: Any, checkpoint: str, name: str) -> None:
        taking = _takes_checkpoint_values.get()
        if taking is None:
            assign(variable, checkpoint, name)
        else:
            taking[0](variable[0] if isinstance(variable, list | tuple) else variable, checkpoint, name)

    for name, function in (
        ("_init_from_checkpoint", init_from_checkpoint),
        ("_set_variable_or_list_initializer", set_initializer),
    ):
        setattr(utils, name, function)


@functools.cache
def lock_additions() -> None:
    """Makes `assign_add` and `assign_sub` of reference variables lock, as those of resource variables do.

    Two workers that count the global step at once would otherwise count one step.  The public functions lock only if
    their caller asks for it, and an optimizer does not.
    """
    operations = importlib.import_module("tensorflow.python.ops.gen_state_ops")

    def locked(really: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(really)
        def add(ref: Any, value: Any, use_locking: Any = True, name: str | None = None) -> Any:
            return really(ref, value, use_locking=True, name=name)

        return add

    for name in ("assign_add", "assign_sub"):
        setattr(operations, name, locked(getattr(operations, name)))

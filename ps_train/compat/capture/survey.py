"""Survey of a program: its model is built once, as TensorFlow itself would build it.

    survey = survey_program(program)
    survey.looked_up["ads"], survey.groups[0].variables, survey.sync

The graph is TensorFlow's own, with real variables and optimizers, so all names in it are those of a checkpoint.  It is
never run.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import checkpoint_values_taken
from ps_train.base.user_code import describe
from ps_train.compat.capture.batches import batched_input
from ps_train.compat.capture.counted_step import ancestors, check_counting, readers
from ps_train.compat.capture.estimator_program import TRAIN, CaptureError, Program, SyncReplicas, hooks_of
from ps_train.compat.capture.hyperparameters import check_hyperparameters, on_this_ps
from ps_train.compat.capture.made_variables import MadeVariables
from ps_train.compat.capture.recorded_optimizers import AppliedGradients, OptimizerRecorder
from ps_train.compat.capture.row_variable import LookedUp, row_initializer
from ps_train.compat.capture.savers import NOTHING_OF_ITS_OWN, SaverWatch, Saving, saving_of
from ps_train.compat.capture.sessions import estimator_graph, seed_of
from ps_train.compat.train.named_tasks import named_tasks
from ps_train.data.data_shard import WHOLE
from ps_train.data.named_inputs import dense_inputs
from ps_train.data.pipeline import training_batches
from ps_train.engine.variables.assigned_variables import writers
from ps_train.engine.variables.copied_functions import FunctionLibrary
from ps_train.engine.variables.pairwise_shapes import check_shapes
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import kind_of
from ps_train.modeling.tables.given_rows import values_come_later

_READS_OF_ROWS = ("ResourceGather", "VariableShape", "VarIsInitializedOp")
_WRITES_OF_ROWS = ("ResourceSparseApply", "ResourceScatter")
_KNOWN_OPTIMIZERS = ("tensorflow.", "ps_train.")
_HARMLESS = ("NoOp", "Identity", "Const")


@dataclasses.dataclass(frozen=True)
class Group:
    """The variables of one call of `apply_gradients`.

    Attributes:
      variables: names of the variables.
      shared: kind and name of each of the optimizer's variables that belong to no single variable, in the order of
        their making.
      scope: what precedes the names of slots: "" or a scope with its slash.
    """

    variables: frozenset[str]
    shared: tuple[tuple[str, str], ...]
    scope: str


@dataclasses.dataclass(frozen=True)
class Survey:
    """The findings about a program.

    Attributes:
      looked_up: name to table, for each variable of which only rows are read.
      groups: the variables of each call of `apply_gradients`, in order.
      partitioned: names of the variables that are made with a partitioner.
      sync: the settings of the SyncReplicasOptimizer; None without one.
      has_hooks: True if the program has training hooks.
      has_initial_values: True if initial values come from elsewhere than the variables' initializers.
      variables: the variables as a trace would find them; None if only a trace can tell.
      saving: how the program saves checkpoints.
    """

    looked_up: Mapping[str, LookedUp]
    groups: Sequence[Group]
    partitioned: frozenset[str]
    sync: SyncReplicas | None
    has_hooks: bool
    has_initial_values: bool
    variables: ModelVariables | None
    saving: Saving = NOTHING_OF_ITS_OWN


def survey_program(program: Program) -> Survey:
    """Builds the program's model in a graph of its own, and returns what it does.

    Raises:
      CaptureError: it does something that the engine cannot do in its place.
    """
    with estimator_graph(program.config):
        step = v1.train.get_global_step()
        data = batched_input(program.input_fn)
        batches = training_batches(data, WHOLE, 1, epochs=1, shuffle_buffer=0)
        recorder = OptimizerRecorder(_name_of, lambda variable: variable, carries_out=True)
        made = MadeVariables(recorder, seed_of(program.config))
        setter = v1.train.replica_device_setter(ps_tasks=1, worker_device=_OWN_DEVICE)
        # Devices decide how TensorFlow looks up rows; in a cluster these are the devices.
        taken: list[Any] = []
        taking, savers = checkpoint_values_taken(lambda *value: taken.append(value), dict), SaverWatch()
        building = savers.building()
        with v1.device(setter), values_come_later(), taking, made.watching(), recorder.recording(), building:
            spec = _spec_of(program, batches.features, recorder)
        if others := named_tasks(v1.get_default_graph(), _OWN_DEVICE):
            raise CaptureError(f"it places work on {', '.join(others)}")
        check_shapes("the loss", spec.loss, dense_inputs(batches.features, None))  # a mistake with every engine
        _check_updates(recorder.applied)
        _check_runs(recorder.applied, spec)
        check_counting(spec.train_op, step)
        check_hyperparameters(recorder.applied, step)
        _check_own_updates(recorder.applied, made.initializers)
        hooks = hooks_of(program, spec, is_chief=True)
        has_hooks = bool(hooks)
        if data.is_fed and (not has_hooks or _initializes(spec.scaffold)):
            raise CaptureError("the values that its input reads are given by other means than a hook")
        read_by_hooks = _kept_by(hooks)
        of_model = {
            name: one for name, one in made.initializers.items() if read_by_hooks.isdisjoint({name, id(one[0])})
        }
        step_of = [getattr(spec.train_op, "op", spec.train_op), spec.loss.op]
        runs = {op for end in step_of for op in ancestors(end, with_control=True)}
        looked_up = _looked_up(of_model, recorder.applied, savers.operations, runs)
        return Survey(
            looked_up=looked_up,
            groups=[_group(applied) for applied in recorder.applied],
            partitioned=frozenset(made.partitioned),
            sync=recorder.sync,
            has_hooks=has_hooks,
            has_initial_values=bool(taken) or _has_initial_values(program, spec, made.initializers),
            variables=made.as_traced(looked_up, savers.operations, spec.loss),
            saving=saving_of(program, spec, savers.savers),
        )


_OWN_DEVICE = "/job:own_worker/task:0"
"""No device of the program's: what it places on a worker by name, it places there in the graph of every task."""


def _name_of(variable: Any) -> str:
    return str(variable.op.name)


def _group(applied: AppliedGradients) -> Group:
    owners = tuple(f"{applied.scope}{name}/" for name in applied.gradients)
    named = [(kind_of(one.name), str(one.variable.op.name)) for one in applied.made]
    shared = [(kind, name) for kind, name in named if not name.startswith(owners)]
    return Group(frozenset(applied.gradients), tuple(shared), applied.scope)


def _looked_up(
    made: Mapping[str, tuple[Any, Any, Any]],
    applied: Sequence[AppliedGradients],
    of_savers: Collection[tf.Operation],
    runs: Collection[tf.Operation],
) -> dict[str, LookedUp]:
    """Returns the table of each variable whose rows are all that a step reads, beside the savers' operations.

    Args:
      made: see `MadeVariables.initializers`.
      applied: the calls of `apply_gradients`.
      of_savers: the operations of the model's savers.
      runs: the operations that every step runs.  Others, such as a summary's, may read a variable whole.
    """
    trained = {name for call in applied for name in call.gradients}
    found = {}
    for name, (variable, initializer, _) in made.items():
        shape = variable.shape
        if name not in trained or variable.dtype != tf.float32 or shape.rank not in (1, 2):
            continue
        if not any(isinstance(call.gradients.get(name), tf.IndexedSlices) for call in applied):
            continue
        of_rows = row_initializer(initializer, shape.as_list())
        if of_rows is not None and _gives_only_rows(variable, of_savers, runs):
            is_read = bool(_whole_readers(variable, of_savers) - set(runs))
            width, is_vector = (1, True) if shape.rank == 1 else (shape[1], False)
            found[name] = LookedUp(
                name, width, rows=int(shape[0]), initializer=of_rows, is_vector=is_vector, is_read_whole=is_read
            )
    while late := _looked_up_late({name: _lookups(made[name][0]) for name in found}):
        for name in late:
            del found[name]
    return found


def _kept_by(hooks: Sequence[Any]) -> set[Any]:
    """Returns the names of variables that hooks keep, and the ids of objects: they read these variables whole."""
    kept: set[Any] = set()
    for leaf in itertools.chain.from_iterable(tf.nest.flatten(list(vars(hook).values())) for hook in hooks):
        kept.add(leaf.removesuffix(":0") if isinstance(leaf, str) else id(leaf))
        if isinstance(leaf, tf.Tensor) and leaf.op.type == "ReadVariableOp":
            kept.add(leaf.op.inputs[0].op.name)
    return kept


def _lookups(variable: Any) -> list[tf.Operation]:
    return [reader for reader in variable.handle.consumers() if reader.type == "ResourceGather"]


def _looked_up_late(lookups: Mapping[str, Sequence[tf.Operation]]) -> list[str]:
    """Returns the variables with rows that a batch's other rows decide, such as the positions in a looked-up sequence.

    The rows of a step are fetched together, before its model runs.  So these variables travel whole.

    Args:
      lookups: the lookups of each variable of which only rows are read.
    """
    late: set[str] = set()
    owners = {lookup: name for name, of_one in lookups.items() for lookup in of_one}
    after_rows: set[tf.Operation] = set()
    graph = v1.get_default_graph()
    for op in graph.get_operations() if owners else ():  # what an operation needs comes before it
        needed = itertools.chain((source.op for source in op.inputs), op.control_inputs)
        follows = any(each in after_rows for each in needed)
        if follows and op in owners:
            late.add(owners[op])
        if follows or op in owners:
            after_rows.add(op)
    return sorted(late)


def _gives_only_rows(variable: Any, of_savers: Collection[tf.Operation], runs: Collection[tf.Operation]) -> bool:
    """Returns True if operations of the model read rows of a variable, and none of a step reads or writes it whole."""
    others = _whole_readers(variable, of_savers)
    if others & set(runs):
        return False
    if others:
        library = FunctionLibrary.of(v1.get_default_graph().get_operations())
        written = writers(variable.handle, library, variable.initializer)
        if any(op not in runs and op not in of_savers and not op.type.startswith(_WRITES_OF_ROWS) for op in written):
            return False
    return bool(_lookups(variable))


def _whole_readers(variable: Any, of_savers: Collection[tf.Operation]) -> set[tf.Operation]:
    """Returns the operations that may read a variable whole, beside the savers' and the optimizer's."""
    return {
        reader
        for reader in variable.handle.consumers()
        if not (reader in of_savers or reader is variable.initializer or _is_update(reader))
        and reader.type not in _READS_OF_ROWS
        and not reader.type.startswith(_WRITES_OF_ROWS)
        and (reader.type != "ReadVariableOp" or _is_used(reader, of_savers))
    }


def _is_used(reader: tf.Operation, of_savers: Collection[tf.Operation]) -> bool:
    return any(user not in of_savers for output in reader.outputs for user in output.consumers())


def _is_update(reader: tf.Operation) -> bool:
    """Returns True for a part of an optimizer's update: Adam writes all rows, on the ps."""
    return "/update_" in f"/{reader.name}"


def _spec_of(program: Program, batch: Any, recorder: OptimizerRecorder) -> Any:
    """Returns the specification of a model_fn; raises the recorder's refusal, whatever the model_fn makes of it."""
    spec = None
    try:
        spec = program.model_fn(batch.features, batch.labels, TRAIN)
    except Exception:
        if recorder.refusal is None:
            raise
    if recorder.refusal is not None:
        raise recorder.refusal
    return spec


def _check_updates(applied: Sequence[AppliedGradients]) -> None:
    """Checks that the model updates by optimizers, and that nothing waits for the updated values."""
    if not applied:
        raise CaptureError("no optimizer of tf.compat.v1.train applies gradients")
    for call in applied:
        for waiting in readers(call.done, through=_HARMLESS):
            if waiting.type not in _HARMLESS and not _counts_steps(waiting):
                raise CaptureError(f"{waiting.name} ({waiting.type}) runs after the optimizer's update")


def _check_runs(applied: Sequence[AppliedGradients], spec: Any) -> None:
    """Checks that a step makes every update, each with powers of beta and the like of its own."""
    runs = set(ancestors([spec.train_op, spec.loss], with_control=True))
    seen: dict[int, AppliedGradients] = {}
    for call in applied:
        kind, some = type(call.optimizer).__name__, sorted(call.gradients)[0]
        if call.done not in runs:
            raise CaptureError(f"the train_op does not run the update of {some} by {kind}")
        first = seen.setdefault(id(call.optimizer), call)
        if first is not call and _group(first).shared:
            raise CaptureError(
                f"one {kind} applies gradients twice in a step: it has {_group(first).shared[0][1]} once"
            )


def _check_own_updates(applied: Sequence[AppliedGradients], made: Mapping[str, tuple[Any, Any, Any]]) -> None:
    """Checks that a copy of an optimizer with code of the user's can make its update as the ps do: in a condition."""
    for call in applied:
        kind = type(call.optimizer)
        if kind.__module__.startswith(_KNOWN_OPTIMIZERS):
            continue
        pairs = [(gradient, made[name][0]) for name, gradient in call.gradients.items() if name in made]
        try:
            _update_in_a_condition(on_this_ps(call.optimizer, None), pairs)
        except Exception as error:
            raise CaptureError(
                f"a copy of {kind.__name__} cannot make its update on a ps: {describe(error)}"
            ) from error


def _update_in_a_condition(optimizer: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
    def update() -> tf.Operation:
        with v1.variable_scope("ps_train"):  # the slots of the model's own update have their names
            return optimizer.apply_gradients(pairs)

    v1.cond(tf.constant(True), update, tf.no_op)


def _counts_steps(operation: tf.Operation) -> bool:
    """Returns True for an operation with which an optimizer counts the global step."""
    return operation.type in ("AssignAddVariableOp", "ReadVariableOp") and bool(
        operation.inputs and operation.inputs[0].op.name == "global_step"
    )


def _initializes(scaffold: Any) -> bool:
    """Returns True if a scaffold has an initialization of the program's own."""
    return scaffold is not None and any(
        (scaffold.init_op, scaffold.init_fn, scaffold.init_feed_dict, scaffold.local_init_op)
    )


def _has_initial_values(program: Program, spec: Any, made: Mapping[str, tuple[Any, Any, Any]]) -> bool:
    scaffold = spec.scaffold
    if program.warm_start is not None or (scaffold is not None and (scaffold.init_fn or scaffold.init_op)):
        return True
    return any(variable.initializer is not first for variable, _, first in made.values())

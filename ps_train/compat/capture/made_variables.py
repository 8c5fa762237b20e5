"""Record of the variables that a model_fn makes, and of what the engine would find in a trace.

    made = MadeVariables(recorder, seed=1)
    with made.watching(), recorder.recording():
        spec = model_fn(features, labels, "train")
    made.as_traced(looked_up)               # ModelVariables; None if only a trace can tell

A trace gives the model values in place of variables (`engine/variables/trace.py`).  Most models make the same variables
with both.  The first graph that is built with values shows it; see `CapturedModel.check_made`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import has_custom_gradient, reset_keras_names
from ps_train.compat.capture.recorded_optimizers import OptimizerRecorder
from ps_train.compat.capture.sessions import in_one_piece
from ps_train.engine.variables.assigned_variables import assigned_variables
from ps_train.engine.variables.plain_graph import is_trained
from ps_train.engine.variables.trace import ModelVariables, VariableTrace, python_seed, trace_variable, with_findings
from ps_train.engine.variables.user_variables import is_local
from ps_train.engine.variables.variable_uses import variable_uses
from ps_train.modeling.scratch_graph import scratch_graph
from ps_train.modeling.tables.row_source import declared_tables
from ps_train.modeling.tables.table import Table

_VARIABLES = ("VarHandleOp", "VariableV2")


class MadeVariables:
    """Watch over the variables that a model_fn makes in the default graph, in which it uses TensorFlow's own.

    Args:
      recorder: the record of its optimizers, which carries the calls out.
      seed: of the job.

    Attributes:
      initializers: name of each trainable variable to the variable, the initializer that it was made with, and its
        initializer operation at that time.
      partitioned: the trainable variables with a partitioner.
    """

    def __init__(self, recorder: OptimizerRecorder, seed: int) -> None:
        self.initializers: dict[str, tuple[Any, Any, tf.Operation]] = {}
        self.partitioned: set[str] = set()
        self._recorder, self._seed = recorder, seed
        self._made: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        self._before = {op.name for op in _variables_of(v1.get_default_graph())}
        self._is_getting = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Makes the body's variables resource variables in one piece, and remembers them.

        Python's `random`, from which Keras draws seeds of initial values, has the seed of the configuration, as in a
        trace.
        """

        def get(getter: Any, name: str, *args: Any, **options: Any) -> Any:
            with self._getting():
                variable = in_one_piece(getter, name, *args, **options)
            if getattr(variable, "trainable", False):
                self.partitioned.update([name] if options.get("partitioner") else ())
                self.initializers.setdefault(name, (variable, options.get("initializer"), variable.initializer))
            if not self._recorder.is_applying and not is_local(options):
                self._made.setdefault(name, (variable, options))
            return variable

        def create(make: Callable[..., Any], **options: Any) -> Any:  # by tf.Variable, as layers of Keras do
            if self._is_getting or options.get("variable_def") is not None:
                return make(**options)
            variable = make(**{**options, "use_resource": True})
            if not self._recorder.is_applying and not is_local(options):
                self._made.setdefault(variable.op.name, (variable, options))
            return variable

        reset_keras_names()  # a trace counts them from the beginning too
        scope = v1.variable_scope(v1.get_variable_scope(), custom_getter=get)
        with scope, tf.variable_creator_scope(create), python_seed(self._seed):
            yield

    @contextlib.contextmanager
    def _getting(self) -> Iterator[None]:
        before, self._is_getting = self._is_getting, True
        try:
            yield
        finally:
            self._is_getting = before

    def as_traced(
        self, tables: Mapping[str, Table], of_savers: Collection[tf.Operation] = (), loss: tf.Tensor | None = None
    ) -> ModelVariables | None:
        """Returns the variables as a trace would find them; None if only a trace can tell.

        A trace is needed if the model makes a variable by other means than get_variable and tf.Variable, gives
        get_variable a tensor as the initial value, begins a variable with the value of another, or has a constraint.
        It is also needed if the model looks up rows of a table of ps_train, or has a custom gradient.

        Args:
          tables: name to table, of the variables of which only rows are read.
          of_savers: the operations of the model's savers, which the engine replaces.
          loss: the loss, by which the uses of the variables are found; None: they are not compared between tasks.
        """
        graph = v1.get_default_graph()
        if declared_tables(graph) or self._makes_others(graph):
            return None
        if any(has_custom_gradient(op) for op in graph.get_operations()):
            return None
        traces: dict[str, VariableTrace] = {}
        for name in self._in_order(graph, tables):
            variable, options = self._made[name]
            if not _is_plain(name, variable, options):
                return None
            try:
                traces[name] = trace_variable(name, variable, options, {})
            except ModelError:
                return None
        found = {name: gradient for call in self._recorder.applied for name, gradient in call.gradients.items()}
        gradients = {name: found.get(name) for name, one in traces.items() if one.trainable}
        if not found.keys() <= gradients.keys():
            return None
        others = {name: self._made[name][0] for name in traces if name not in gradients}
        assigned = assigned_variables(others, of_savers)
        handles = {name: self._made[name][0].handle for name in gradients}
        initial = {name: traces[name].initializer for name in gradients}
        uses = {} if loss is None else variable_uses(loss, handles, initial)
        with scratch_graph():
            return ModelVariables(with_findings(traces, gradients, tables, assigned), uses)

    def _makes_others(self, graph: tf.Graph) -> bool:
        """Returns True if there are variables that neither the model nor an optimizer is known to have made."""
        shared = {id(variable) for variable in v1.global_variables()}
        local = [variable for variable in v1.local_variables() if id(variable) not in shared]
        of_optimizers = [one.variable for call in self._recorder.applied for one in call.made]
        known = {variable.op.name for variable in [*local, *of_optimizers]} | self._made.keys() | self._before
        return any(op.name not in known for op in _variables_of(graph))

    def _in_order(self, graph: tf.Graph, tables: Iterable[str]) -> list[str]:
        """Returns the names in the order of a trace, where a table is made when its rows are first looked up."""
        places = {op.name: place for place, op in enumerate(graph.get_operations())}

        def place(name: str) -> int:
            variable = self._made[name][0]
            lookups = [op.name for op in variable.handle.consumers() if op.type == "ResourceGather"]
            return min(places[op] for op in (lookups if name in tables else [variable.handle.op.name]))

        return sorted(self._made, key=place)


def _variables_of(graph: tf.Graph) -> list[tf.Operation]:
    return [op for op in graph.get_operations() if op.type in _VARIABLES]


def _is_plain(name: str, variable: Any, options: Mapping[str, Any]) -> bool:
    """Returns True if a trace makes the variable in the same way: by this name, with values of any graph."""
    initializer = options.get("initializer")
    return (
        variable.op.name == name
        and variable.shape.is_fully_defined()
        and is_trained(variable) == bool(variable.trainable)
        and options.get("constraint") is None
        and not isinstance(initializer, tf.Tensor | tf.Variable)
    )

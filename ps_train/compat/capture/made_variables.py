"""Record of the variables that a model_fn makes by get_variable, and of what the engine would find in a trace.

    made = MadeVariables(recorder)
    with made.watching(), recorder.recording():
        spec = model_fn(features, labels, "train")
    made.as_traced(looked_up)               # ModelVariables; None if only a trace can tell

A trace gives the model values in place of variables (`engine/variables/trace.py`).  Most models make the same variables
with both.  The first graph that is built with values shows it; see `CapturedModel.check_made`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import has_custom_gradient
from ps_train.compat.capture.recorded_optimizers import OptimizerRecorder
from ps_train.compat.capture.sessions import in_one_piece
from ps_train.engine.variables.assigned_variables import assigned_variables
from ps_train.engine.variables.plain_graph import is_trained
from ps_train.engine.variables.trace import ModelVariables, VariableTrace, trace_variable, with_findings
from ps_train.engine.variables.user_variables import is_local
from ps_train.modeling.scratch_graph import scratch_graph
from ps_train.modeling.tables.row_source import declared_tables
from ps_train.modeling.tables.table import Table

_VARIABLES = ("VarHandleOp", "VariableV2")


class MadeVariables:
    """Watch over the variables that a model_fn makes in the default graph, in which it uses TensorFlow's own.

    Args:
      recorder: the record of its optimizers, which carries the calls out.

    Attributes:
      initializers: name of each trainable variable to the variable, the initializer that it was made with, and its
        initializer operation at that time.
      partitioned: the trainable variables with a partitioner.
    """

    def __init__(self, recorder: OptimizerRecorder) -> None:
        self.initializers: dict[str, tuple[Any, Any, tf.Operation]] = {}
        self.partitioned: set[str] = set()
        self._recorder = recorder
        self._made: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        self._before = {op.name for op in _variables_of(v1.get_default_graph())}
        self._random = random.getstate()

    def watching(self) -> AbstractContextManager[Any]:
        """Returns a variable scope that makes resource variables in one piece and remembers them."""

        def get(getter: Any, name: str, *args: Any, **options: Any) -> Any:
            variable = in_one_piece(getter, name, *args, **options)
            if getattr(variable, "trainable", False):
                self.partitioned.update([name] if options.get("partitioner") else ())
                self.initializers.setdefault(name, (variable, options.get("initializer"), variable.initializer))
            if not self._recorder.is_applying and not is_local(options):
                self._made.setdefault(name, (variable, options))
            return variable

        return v1.variable_scope(v1.get_variable_scope(), custom_getter=get)

    def as_traced(self, tables: Mapping[str, Table], of_savers: Collection[tf.Operation] = ()) -> ModelVariables | None:
        """Returns the variables as a trace would find them; None if only a trace can tell.

        A trace is needed if the model makes a variable by other means than get_variable, with an initial value that is
        a tensor, or with a constraint.  It is also needed if the model looks up rows of a table of ps_train, has a
        custom gradient, or draws numbers of Python's `random`.

        Args:
          tables: name to table, of the variables of which only rows are read.
          of_savers: the operations of the model's savers, which the engine replaces.
        """
        graph = v1.get_default_graph()
        if self._random != random.getstate() or declared_tables(graph) or self._makes_others(graph):
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
        with scratch_graph():
            return ModelVariables(with_findings(traces, gradients, tables, assigned))

    def _makes_others(self, graph: tf.Graph) -> bool:
        """Returns True if there are variables that neither get_variable nor an optimizer has made."""
        shared = {id(variable) for variable in v1.global_variables()}
        local = [variable for variable in v1.local_variables() if id(variable) not in shared]
        of_optimizers = [variable for call in self._recorder.applied for variable in call.made]
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

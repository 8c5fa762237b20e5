"""Record of the gradients that a model_fn computes and applies, in place of its optimizers.

    recorder = OptimizerRecorder(name_of, source_of)
    with recorder.recording():
        spec = model_fn(features, labels, "train")
    recorder.applied[0].optimizer, recorder.applied[0].gradients["dense/kernel"]

`compute_gradients` and `apply_gradients` of `tf.compat.v1.train.Optimizer` are replaced while the model_fn runs.  All
other methods, `minimize` among them, are TensorFlow's own and call these two.  `tf.gradients` is replaced too: it finds
the gradient for the value that stands for a variable.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import control_flow_context, sync_settings
from ps_train.compat.capture.estimator_program import CaptureError, SyncReplicas
from ps_train.engine.variables.given_names import given_names
from ps_train.engine.variables.variables import OptimizerVariable

_lock = threading.RLock()


@contextlib.contextmanager
def replaced(attributes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replaces attributes within the body, for all threads; another thread's body waits for the end of this one.

    Args:
      attributes: (owner, name, value in the body); an owner that inherits the attribute inherits it again afterwards.
    """
    with _lock, contextlib.ExitStack() as undo:
        for owner, name, value in attributes:
            if name in vars(owner):
                undo.callback(setattr, owner, name, vars(owner)[name])
            else:
                undo.callback(delattr, owner, name)
            setattr(owner, name, value)
        yield


_OPTIMIZER = v1.train.Optimizer
_SYNC = v1.train.SyncReplicasOptimizer
_apply_really = _OPTIMIZER.apply_gradients
_gradients_really = v1.gradients


@dataclasses.dataclass
class AppliedGradients:
    """A call of `apply_gradients`.

    Attributes:
      optimizer: the optimizer; the one inside of a SyncReplicasOptimizer.
      gradients: variable name to gradient: a tensor, IndexedSlices, or None.
      done: the operation that the model_fn was given for the update.
      scope: the variable scope of the call: "" or a scope with its slash.
      hyperparameters: the optimizer's attributes before its first update.
      made: the variables that the optimizer made, with the names that it gave them, if the call was carried out.
    """

    optimizer: Any
    gradients: Mapping[str, Any]
    done: tf.Operation
    scope: str
    hyperparameters: Mapping[str, Any]
    made: Sequence[OptimizerVariable] = ()


class OptimizerRecorder:
    """Recorder of the gradients that a model_fn computes and applies.

    Args:
      name_of: returns the name of a variable that the model was given.
      source_of: returns the tensor or variable that the gradient for it is computed with respect to.
      carries_out: if True, the calls are recorded and carried out too.

    Attributes:
      applied: the calls of `apply_gradients`, in order.
      sync: the settings of the SyncReplicasOptimizer; None without one.
      refusal: the reason why a call cannot be recorded; None if all are.  The model_fn may hide the error.
      is_applying: True while a call is carried out: the variables that are made then are the optimizer's.
    """

    def __init__(
        self, name_of: Callable[[Any], str], source_of: Callable[[Any], Any], carries_out: bool = False
    ) -> None:
        self._name_of, self._source_of, self._carries_out = name_of, source_of, carries_out
        self.applied: list[AppliedGradients] = []
        self.sync: SyncReplicas | None = None
        self.refusal: CaptureError | None = None
        self.is_applying = False
        self._place: Any = None
        self._hyperparameters: dict[int, dict[str, Any]] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Replaces the methods of all optimizers within the body."""
        recorder = self
        self._place = _place()

        def compute(optimizer: Any, loss: Any, var_list: Any = None, *args: Any, **options: Any) -> Any:
            return recorder._compute(optimizer, loss, var_list, *args, **options)

        def apply(optimizer: Any, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
            return recorder._apply(optimizer, grads_and_vars, global_step, name)

        def apply_sync(optimizer: Any, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
            return recorder._apply_sync(optimizer, grads_and_vars, global_step, name)

        def gradients_by(really: Any) -> Any:
            def gradients(ys: Any, xs: Any, *args: Any, **options: Any) -> Any:
                return really(ys, tf.nest.map_structure(recorder._source_of, xs), *args, **options)

            return gradients

        attributes = [(_OPTIMIZER, "compute_gradients", compute), (_OPTIMIZER, "apply_gradients", apply)]
        for kind in (_SYNC, *_SYNC.__subclasses__()):  # those of `ps_train.train` too
            attributes += [(kind, "apply_gradients", apply_sync), (kind, "make_session_run_hook", _no_hook)]
        attributes += [(owner, "gradients", gradients_by(vars(owner)["gradients"])) for owner in (tf, v1)]
        with replaced(attributes):
            yield

    def _compute(
        self,
        optimizer: Any,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = _OPTIMIZER.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Returns pairs of gradient and variable, as `compute_gradients` does."""
        loss = loss() if callable(loss) else loss
        variables = tf.nest.flatten(var_list) if var_list is not None else v1.trainable_variables()
        if not variables:
            raise ValueError("No variables to optimize.")
        sources = [self._source_of(variable) for variable in variables]
        found = _gradients_really(loss, sources, grad_ys=grad_loss, aggregation_method=aggregation_method)
        return list(zip(found, variables, strict=True))

    def _apply(self, optimizer: Any, grads_and_vars: Any, global_step: Any, name: str | None) -> Any:
        pairs = list(grads_and_vars)
        if not pairs or all(gradient is None for gradient, _ in pairs):
            raise ValueError(f"No gradients provided for any variable: {[self._name_of(v) for _, v in pairs]}.")
        gradients = {self._name_of(variable): gradient for gradient, variable in pairs if gradient is not None}
        self._check(optimizer, gradients)
        made: list[OptimizerVariable] = []
        hyperparameters = self._hyperparameters.setdefault(id(optimizer), dict(vars(optimizer)))
        if self._carries_out:
            before = {id(variable) for variable in v1.global_variables()}
            self.is_applying = True
            try:
                with given_names() as names:
                    result = _apply_really(optimizer, pairs, global_step, name)
            finally:
                self.is_applying = False
            found = [variable for variable in v1.global_variables() if id(variable) not in before]
            made = [OptimizerVariable(variable, names.get(id(variable), variable.op.name)) for variable in found]
        else:
            result = tf.no_op(name or f"{optimizer.get_name()}_update")
        done = result if isinstance(result, tf.Operation) else result.op
        scope = f"{v1.get_variable_scope().name}/".lstrip("/")
        self.applied.append(AppliedGradients(optimizer, gradients, done, scope, hyperparameters, made))
        return result

    def _check(self, optimizer: Any, gradients: Mapping[str, Any]) -> None:
        """Checks that a call can be recorded: the engine makes the update once, in every step."""
        kind = type(optimizer).__name__
        if type(optimizer).apply_gradients is not _OPTIMIZER.apply_gradients:
            self._refuse(f"{kind} has an apply_gradients of its own")
        if _place() != self._place:
            self._refuse(f"{kind} applies gradients inside of a condition, a loop or a tf.function")
        for earlier in self.applied:
            if twice := sorted(earlier.gradients.keys() & gradients.keys()):
                self._refuse(f"variable {twice[0]} is updated twice in a step")

    def _refuse(self, reason: str) -> NoReturn:
        self.refusal = self.refusal or CaptureError(reason)
        raise self.refusal

    def _apply_sync(self, optimizer: Any, grads_and_vars: Any, global_step: Any, name: str | None) -> Any:
        """Records the settings, and applies the gradients with the optimizer inside."""
        settings = sync_settings(optimizer)
        if settings.averages is not None:
            self._refuse(f"{type(optimizer).__name__} keeps averages of variables")
        self.sync = SyncReplicas(settings.to_aggregate, settings.total)
        return settings.optimizer.apply_gradients(grads_and_vars, global_step, name)


def _place() -> tuple[tf.Graph, Any]:
    """Returns the graph, or function, and the branch or loop in which operations are being made."""
    graph = v1.get_default_graph()
    return graph, control_flow_context(graph)


def _no_hook(optimizer: Any, is_chief: bool, num_tokens: int = -1) -> v1.train.SessionRunHook:
    """Takes the place of `SyncReplicasOptimizer.make_session_run_hook`: the engine synchronizes without one."""
    return v1.train.SessionRunHook()

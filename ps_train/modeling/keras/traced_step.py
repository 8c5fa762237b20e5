"""A Keras model's training step, traced eagerly once.

    step = trace_step(model, batch)          # in the process that has the model; batch: one batch, or its TensorSpecs
    step.write(directory)
    step = TracedStep.read(directory)        # in any process; needs no Keras

`model.train_step` runs as it is, an own one too.  Only `Optimizer.apply` is recorded in the place of being carried out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import trained_by
from ps_train.base.user_code import UserCodeError, user_code
from ps_train.modeling.keras.names import keyed_variables, variable_keys, variable_of
from ps_train.modeling.keras.portable_graph import LookupTable, PortableGraph, Use
from ps_train.modeling.keras.rules import trace_rules
from ps_train.modeling.keras.tracing import traced_built, tracing
from ps_train.modeling.keras.update_rules import UpdateRules

log = logging.getLogger(__name__)

TRAINED, STATE, SUM, FIXED, SCALE = "trained", "state", "sum", "fixed", "scale"
"""The roles of variables."""


@dataclasses.dataclass(frozen=True)
class TracedVariable:
    """A variable of the step.

    Attributes:
      key: its name on the ps and in checkpoints.
      role: TRAINED, STATE, SUM, FIXED, or SCALE for the dynamic factor of the loss.
      value: the value that it begins with; of a sum, its value before the first batch of an epoch.
      gradient: place of its gradient among the results; empty for none.
      is_sparse: True if the gradient is of rows: values, indices and the dense shape, at three places.
      is_seed: True for the state of a generator of random numbers: a seed and a counter.
    """

    key: str
    role: str
    value: np.ndarray[Any, Any]
    gradient: tuple[int, ...] = ()
    is_sparse: bool = False
    is_seed: bool = False


@dataclasses.dataclass(frozen=True)
class TracedStep:
    """A training step.

    Attributes:
      graph: the step; its results are the loss, then the gradients.
      variables: those that it uses, in the order of `graph.uses`.
      rules: the updates of the trained ones.
    """

    graph: PortableGraph
    variables: tuple[TracedVariable, ...]
    rules: UpdateRules

    def write(self, directory: str) -> None:
        """Writes the step into a directory."""
        with open(os.path.join(directory, _RULES), "wb") as file:
            file.write(self.rules.to_bytes())
        with open(os.path.join(directory, _NODES), "wb") as file:
            file.write(self.graph.nodes)
        arrays = {f"constant{n}": value for n, value in enumerate(self.graph.constants.values())}
        arrays |= {f"value{n}": one.value for n, one in enumerate(self.variables)}
        for n, table in enumerate(self.graph.tables.values()):
            arrays |= {f"keys{n}": _without_objects(table.keys), f"values{n}": _without_objects(table.values)}
        for name, array in arrays.items():
            np.save(os.path.join(directory, f"{name}.npy"), array, allow_pickle=False)
        described = {
            "inputs": self.graph.inputs,
            "outputs": self.graph.outputs,
            "effects": self.graph.effects,
            "constants": [*self.graph.constants],
            "tables": [*self.graph.tables],
            "uses": [dataclasses.asdict(use) for use in self.graph.uses if use is not None],
            "variables": [
                {name: value for name, value in vars(one).items() if name != "value"} for one in self.variables
            ],
        }
        with open(os.path.join(directory, _STEP), "w") as file:
            json.dump(described, file)

    @classmethod
    def read(cls, directory: str) -> TracedStep:
        """Returns the step that `write` wrote; large values stay in their files."""
        with open(os.path.join(directory, _STEP)) as file:
            found = json.load(file)
        with open(os.path.join(directory, _NODES), "rb") as binary:
            nodes = binary.read()
        with open(os.path.join(directory, _RULES), "rb") as binary:
            rules = UpdateRules.from_bytes(binary.read())

        def array(name: str) -> np.ndarray[Any, Any]:
            loaded: np.ndarray[Any, Any] = np.load(os.path.join(directory, f"{name}.npy"), mmap_mode="r")
            return loaded

        constants = {name: np.array(array(f"constant{n}")) for n, name in enumerate(found["constants"])}
        graph = PortableGraph(
            nodes,
            tuple(found["inputs"]),
            tuple(found["outputs"]),
            tuple(found["effects"]),
            constants,
            tuple(Use.of(one) for one in found["uses"]),
            {
                node: LookupTable(np.array(array(f"keys{n}")), np.array(array(f"values{n}")))
                for n, node in enumerate(found["tables"])
            },
        )
        variables = tuple(
            TracedVariable(**{**one, "value": array(f"value{n}"), "gradient": tuple(one["gradient"])})
            for n, one in enumerate(found["variables"])
        )
        return cls(graph, variables, rules)

    def sums(self) -> list[TracedVariable]:
        """Returns the variables that are added up over the workers."""
        return [one for one in self.variables if one.role == SUM]


_SEED = "seed_generator_state"
"""End of the name of a variable with the state of a `keras.random.SeedGenerator`."""

_STEP, _NODES, _RULES = "step.json", "step.pb", "rules.bin"


def _without_objects(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns texts as bytes of one length, which a file may hold."""
    return np.array([bytes(one) for one in array.flat], np.bytes_) if array.dtype == object else array


class _Recorder:
    """What a step gives to its optimizers.

    Attributes:
      optimizers: each optimizer that was given something.
      found: (gradient or None, Keras variable) in order.
    """

    def __init__(self) -> None:
        self.optimizers: list[Any] = []
        self.found: list[tuple[Any, Any]] = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Records the calls of `apply` within the body; an optimizer that has no variables yet makes them."""
        import keras

        recorder = self

        def apply(optimizer: Any, grads: Sequence[Any], trainable_variables: Any = None) -> None:
            recorder._apply(optimizer, list(grads), trainable_variables)

        classes = [keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer]
        before = [(kind, vars(kind).get("apply")) for kind in classes]
        try:
            for kind in classes:
                kind.apply = apply
            yield
        finally:
            for kind, method in before:
                if method is None:
                    del kind.apply
                else:
                    kind.apply = method

    def _apply(self, optimizer: Any, gradients: list[Any], variables: Any) -> None:
        if variables is None and not optimizer.built:
            raise ModelError("optimizer.apply(grads) is called without variables: give the variables too.")
        given = list(variables) if variables is not None else trained_by(optimizer)
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(given)
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
        self.found += zip(gradients, given, strict=True)


def build(model: Any, batch: Any) -> None:
    """Makes the variables of a model and its optimizer that are not there yet, as `trace_step` does."""
    if not model.built or not model.optimizer.built:
        _traced(model, batch, _Recorder())


def _traced(model: Any, batch: Any, recorder: _Recorder) -> Any:
    """Returns the step as a concrete function of a batch; its results are the loss and a list of the gradients."""

    def step(data: Any) -> Any:
        recorder.found.clear()
        recorder.optimizers.clear()
        logs = model.train_step(data)
        return _loss_of(logs, model), [gradient for gradient, _ in recorder.found]

    try:
        with user_code("train_step()"), recorder.recording(), tracing():
            return tf.function(step, autograph=False).get_concrete_function(batch)
    except UserCodeError as error:
        if not model.run_eagerly:
            raise
        raise ModelError(
            f"{error}.  run_eagerly=True has no effect on fit, which traces train_step once: write a step that needs "
            "its values in Python as a loop of your own, in the scope of ps_train.keras.ParameterServerStrategy."
        ) from error.__cause__


def trace_step(model: Any, batch: Any) -> TracedStep:
    """Traces the step of a compiled model; the model's variables keep their values.

    Args:
      model: the model; layers and optimizer that have no variables yet get them.
      batch: what `train_step` gets, a structure of TensorSpecs.

    Raises:
      ModelError: the step cannot be traced, or trains nothing.
    """
    recorder = _Recorder()
    function = traced_built(model, lambda: _traced(model, batch, recorder))
    found = recorder.found
    if not found:
        raise ModelError(
            f"model {model.name}: train_step() gave no gradients to an optimizer: compile(optimizer=...) it, and let "
            "some of its variables be trainable."
        )
    if len(recorder.optimizers) > 1:
        names = ", ".join(type(one).__name__ for one in recorder.optimizers)
        raise ModelError(f"model {model.name}: train_step() uses several optimizers ({names}): use one.")
    trained = {id(variable_of(one)): number for number, (_, one) in enumerate(found)}
    if len(trained) < len(found):
        raise ModelError(f"model {model.name}: train_step() applies two gradients to one variable: add them up first.")
    return _step_of(model, function, found, recorder.optimizers[0])


def _step_of(model: Any, function: Any, found: Sequence[tuple[Any, Any]], optimizer: Any) -> TracedStep:
    keys = keys_of(model, [*function.graph.variables, *(variable_of(one) for _, one in found)])
    captured = {id(variable): variable for variable in function.graph.variables}
    used = [captured[one] for one in keys if one in captured]  # in the order of the model
    graph = PortableGraph.of(function, used)
    roles = _Roles(model, found, keys, getattr(optimizer, "dynamic_scale", None))
    variables = [roles.of(variable, use) for variable, use in zip(used, graph.uses, strict=True) if use is not None]
    graph = dataclasses.replace(graph, uses=tuple(use for use in graph.uses if use is not None))
    with_gradient = [one for gradient, one in found if gradient is not None]
    rules = trace_rules(optimizer, with_gradient, [keys[id(variable_of(one))] for one in with_gradient])
    return TracedStep(graph, tuple(variables), rules)


class _Roles:
    """Finds the roles of the variables of a step.

    Args:
      model: the model.
      found: gradient and variable of each update.
      keys: the key of each variable, by its id.
      scale: the dynamic factor of the loss; None without one.
    """

    def __init__(self, model: Any, found: Sequence[tuple[Any, Any]], keys: Mapping[int, str], scale: Any) -> None:
        self._scale = None if scale is None else id(variable_of(scale))
        self._keys, self._places = keys, _places(found)
        self._metrics = {id(variable_of(one)) for one in model.metrics_variables}
        self._starts = metric_starts(model)

    def of(self, variable: Any, use: Use) -> TracedVariable:
        """Returns a variable with its role; raises ModelError for one that is trained and assigned."""
        one, key = id(variable), self._keys[id(variable)]
        if one in self._places:
            if use.assigned:
                raise ModelError(
                    f"variable {key} is trained, and the model assigns it too: make it with trainable=False, or leave "
                    "its values to the optimizer."
                )
            gradient, is_sparse = self._places[one]
            return TracedVariable(key, TRAINED, variable.numpy(), gradient, is_sparse)
        if one == self._scale and not use.assigned:
            return TracedVariable(key, SCALE, variable.numpy())
        if not use.assigned:
            return TracedVariable(key, FIXED, variable.numpy())
        if one in self._metrics and use.adds:
            return TracedVariable(key, SUM, self._starts[one])
        if one in self._metrics:
            log.warning("metric variable %s is not a sum over batches: its value is the chief's alone", key)
        is_seed = variable.name.partition(":")[0].endswith(_SEED) and variable.shape == [2]
        return TracedVariable(key, STATE, variable.numpy(), is_seed=is_seed)


def _places(found: Sequence[tuple[Any, Any]]) -> dict[int, tuple[tuple[int, ...], bool]]:
    """Returns the places of each variable's gradient among the results, of which the loss is the first."""
    places: dict[int, tuple[tuple[int, ...], bool]] = {}
    at = 1
    for gradient, variable in found:
        flat = tf.nest.flatten(gradient, expand_composites=True) if gradient is not None else []
        places[id(variable_of(variable))] = tuple(range(at, at + len(flat))), isinstance(gradient, tf.IndexedSlices)
        at += len(flat)
    return places


def metric_starts(model: Any) -> dict[int, np.ndarray[Any, Any]]:
    """Returns the value of each metric's variable before the first batch, by the id of the variable."""
    before = [(one, one.numpy()) for one in model.metrics_variables]
    model.reset_metrics()
    starts = {id(variable_of(one)): one.numpy() for one, _ in before}
    for one, value in before:
        one.assign(value)
    return starts


def keyed_metrics(model: Any) -> dict[str, Any]:
    """Returns key to variable of a model's metrics; the keys are not those of other variables of the model."""
    others = list(keyed_variables(model).values())
    own = {id(one) for one in others}
    metrics = [one for one in model.metrics_variables if id(one) not in own]
    return dict(zip(variable_keys([*others, *metrics])[len(others) :], metrics, strict=True))


def keys_of(model: Any, captured: Sequence[Any]) -> dict[int, str]:
    """Returns the key of each variable, by its id: those of the model first, so that `keyed_variables` has them too."""
    named = {id(variable_of(one)): one for one in [*keyed_variables(model).values(), *keyed_metrics(model).values()]}
    for one in captured:
        named.setdefault(id(one), types.SimpleNamespace(path=one.name.partition(":")[0]))
    return dict(zip(named, variable_keys(list(named.values())), strict=True))


def _loss_of(logs: Any, model: Any) -> tf.Tensor:
    """Returns the loss of the batch from what `train_step` returned.

    The metrics begin anew in each step, so the mean of the loss is that of the batch.
    """
    values = logs if isinstance(logs, Mapping) else {}
    for name in ("loss", *values):
        value = values.get(name)
        if isinstance(value, tf.Tensor) and value.dtype.is_floating and value.shape.rank == 0:
            return tf.cast(value, tf.float32)
    raise ModelError(
        f"model {model.name}: train_step() returned no scalar (it returned {type(logs).__name__}): return a dict of "
        "metrics, with the loss as 'loss'."
    )

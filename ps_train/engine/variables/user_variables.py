"""One source for all variables of a model: get_variable, tf.Variable and Keras layers.

    with variables_provided_by(get) as build:   # get(getter, name, *args, **kwargs), as a custom getter
        outputs = model.forward(features, training=True)

A model is built several times, in graphs with different contents.  Its variables need the same names in each graph.
The name of a tf.Variable is therefore the name that it would have in an empty graph.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import checkpoint_values_taken, reset_keras_names
from ps_train.base.unsaved_key import UnsavedKey
from ps_train.engine.variables.model_variable import ModelVariable
from ps_train.engine.variables.seeded_graph import SeededGraph
from ps_train.modeling.tables.given_rows import values_come_later
from ps_train.modeling.tables.row_source import declared_tables

Getter = Callable[..., Any]

_current: contextvars.ContextVar[ModelBuild] = contextvars.ContextVar("construction of a model")

_KEYS = v1.GraphKeys
_LOCAL = UnsavedKey("local_variables")


_KERAS = {
    "Metric": (
        "a Keras metric makes the variable {name} and changes it itself, which is not possible in a graph: let "
        "metrics() return pairs of tf.compat.v1.metrics, or of ps_train.metrics."
    ),
    "Optimizer": (
        "a Keras optimizer, as of model.compile(), makes the variable {name}, which is not possible in a graph: leave "
        "compile() and fit() out; loss(), metrics() and --optimizer or optimizer() take their place."
    ),
    "Layer": (
        "a Keras layer makes the variable {name} and changes it itself, which is not possible in a graph: use tf.nn "
        "instead of such layers: tf.nn.dropout for Dropout, tf.nn.batch_normalization for BatchNormalization."
    ),
}
"""Class of a Keras object that makes variables for itself, to the error."""


class UnknownVariableError(ModelError):
    """The model makes a variable that has no value."""


@contextlib.contextmanager
def variables_provided_by(get: Getter, take: Callable[..., None] | None = None) -> Iterator[ModelBuild]:
    """Calls `get` for every variable that a model makes in the body, except for local variables.

    A local variable is made once in the default graph, even if the model is built there several times.

    Args:
      get: takes (getter, name, *args, **kwargs) and returns the object for the model; `getter` makes TensorFlow's own
        variable.  It raises UnknownVariableError for a variable that has no value.
      take: takes what `init_from_checkpoint` initializes (see `private_tf.checkpoint_values_taken`); None: the graph is
        not initialized, so this is left out.

    Raises:
      ModelError: a variable cannot be provided.
    """
    graph = v1.get_default_graph()
    before = {key: graph.get_collection(key) for key in (_KEYS.GLOBAL_VARIABLES, _KEYS.TRAINABLE_VARIABLES)}
    with v1.name_scope("model") as scope:
        build = ModelBuild(get, graph, scope.rstrip("/"))
        with (
            v1.variable_scope(v1.get_variable_scope(), custom_getter=build.of_get_variable),
            tf.variable_creator_scope(build.of_variable),
            _only_tensors_of_this_graph(),
            values_come_later(),
            checkpoint_values_taken(take, build.named_variables),
        ):
            reset_keras_names()  # each construction has the same names
            build.set_collections()
            token = _current.set(build)
            try:
                yield build
            finally:
                _current.reset(token)  # else this thread would keep the whole graph
                build.restore_collections(before)


def current_build() -> ModelBuild:
    """Returns the construction of the model that is under way."""
    return _current.get()


class ModelBuild:
    """One construction of a model.

    Args:
      get: see `variables_provided_by`.
      graph: the graph of the model.
      prefix: the model's name scope.

    Attributes:
      adds_metrics: True while metrics are built; a variable that `get` does not know then becomes local.
      regularized: variable name to the value that its regularizer gets; else the regularizer gets the model's value.
      local_prefix: begin of the names of local variables, so that metrics that are built again get their own.
    """

    def __init__(self, get: Getter, graph: tf.Graph, prefix: str) -> None:
        self._get, self._graph, self._prefix = get, graph, prefix
        self._taken: dict[str, str] = {}
        self._creator_names, self._local_names, self._tables = set[str](), set[str](), set[str]()
        self._given: dict[str, Any] = {}
        self._made: dict[int, Any] = {}
        self._stand_ins: dict[str, Any] = {}
        self._order: list[str] = []
        self._is_making = False
        self.adds_metrics, self.local_prefix = False, ""
        self.regularized: Mapping[str, tf.Tensor] = {}

    def of_get_variable(self, getter: Getter, name: str, *args: Any, **kwargs: Any) -> Any:
        """Provides the variable of a get_variable call, as a custom getter."""
        name = self._own_name(name)
        self._check_table(name, bool(kwargs.get("reuse")))
        if self._taken.setdefault(name.lower(), name) != name or name in self._creator_names:
            raise ModelError(f"two variables are called {name} (small and capital letters are the same): rename one.")
        is_new = name not in self._given
        kwargs_to_use = {**kwargs, "partitioner": None, "regularizer": None, "use_resource": True}
        found = self._provide(getter, name, args, kwargs_to_use, kwargs.get("partitioner") is not None)
        if is_new and kwargs.get("regularizer") is not None and not is_local(kwargs):
            with tf.init_scope():
                penalty = kwargs["regularizer"](self.regularized.get(name, found))
                if penalty is not None:  # as `contrib.layers.l2_regularizer(0.0)`
                    v1.add_to_collection(_KEYS.REGULARIZATION_LOSSES, penalty)
        return found

    def _check_table(self, name: str, reuse: bool) -> None:
        """Raises ModelError if a name is that of a table and of another variable."""
        if name not in declared_tables(self._graph):
            return
        is_variable = name in self._creator_names or (name in self._given and name not in self._tables)
        if is_variable or (name in self._tables and not reuse):
            raise ModelError(f"a variable and a table of ps_train.embeddings are both called {name}: rename one.")
        self._tables.add(name)

    def named_variables(self) -> dict[str, Any]:
        """Returns the variables of get_variable calls by name, as the model was given them."""
        return {name: found for name, found in self._given.items() if name not in self._creator_names}

    def names(self) -> list[str]:
        """Returns the names of the variables that the model was given, in the order in which it asked for them."""
        return list(self._order)

    def show(self, name: str, stand_in: Any) -> None:
        """Puts an object into the variable collections, in the place of the variable of this name."""
        self._stand_ins[name] = stand_in
        self._order.append(name)
        self.set_collections()

    def _own_name(self, name: str) -> str:
        """Returns the name that a variable has in an empty graph.

        The names of moving averages end in a slash.  TensorFlow names a tensor's average after its operation, which is
        in a name scope here.  It names a variable's average after the variable's operation, whose name may be taken.
        """
        if not name.endswith("/"):
            return name
        for own, given in self._given.items():
            if name.startswith(f"{given.op.name}/"):
                return f"{own}{name.removeprefix(given.op.name)}".rstrip("/")
        return name.removeprefix(f"{self._prefix}/").rstrip("/")

    def of_variable(self, make: Getter, **kwargs: Any) -> Any:
        """Provides the variable of a tf.Variable call, as a variable creator."""
        if self._is_making or kwargs.get("variable_def") is not None:
            return make(**kwargs)

        def named(name: str, **kwargs_to_use: Any) -> Any:
            with v1.name_scope(None):
                return make(**{**kwargs_to_use, "name": name})

        name = self._unique(kwargs.pop("name", None) or "Variable")
        if kwargs.get("trainable") is False and (kind := _keras_kind()):
            raise ModelError(_KERAS[kind].format(name=name))
        return self._provide(named, name, (), {**kwargs, "use_resource": True}, partitioned=False)

    def _unique(self, name: str) -> str:
        """Returns the name in the current name scope, with a number appended if it is taken, as TensorFlow does."""
        scope = v1.get_default_graph().get_name_scope()
        scope = (scope + "/").removeprefix(self._prefix + "/")
        full = key = f"{scope}{name}".lstrip("/")
        number = 0
        while key.lower() in self._taken:
            number += 1
            key = f"{full}_{number}"
        self._taken[key.lower()] = key
        self._creator_names.add(key)
        return key

    def _provide(self, getter: Getter, name: str, args: Any, kwargs: dict[str, Any], partitioned: bool) -> Any:
        if is_local(kwargs) or name in self._local_names:
            return self._local(getter, name, args, kwargs)
        kwargs_to_use = {**kwargs, "collections": None}
        try:
            found = self._get(self._maker(getter), name, *args, **kwargs_to_use)
        except UnknownVariableError:
            if not self.adds_metrics:
                raise
            return self._local(getter, name, args, {**kwargs, "collections": [_KEYS.LOCAL_VARIABLES]})
        if name not in self._given:
            is_value = isinstance(found, tf.Tensor)
            self._given[name] = ModelVariable(name, found, partitioned) if is_value else found
            if name not in self._stand_ins:
                self._order.append(name)
            self.set_collections()
        return self._given[name]

    def _local(self, getter: Getter, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        known = _local_variables(self._graph)
        self._local_names.add(name)
        name = f"{self.local_prefix}{name}"
        if name not in known:
            known[name] = made = self._maker(getter)(name, *args, **kwargs)
            self._made.pop(id(made))
            self.set_collections()  # tf.Variable puts it into the global collection
            local = self._graph.get_collection_ref(_KEYS.LOCAL_VARIABLES)
            if not any(variable is made for variable in local):
                local.append(made)
        return known[name]

    def _maker(self, getter: Getter) -> Getter:
        """Returns a getter that makes TensorFlow's own variable outside of branches, loops and functions."""

        def make(name: str, *args: Any, **kwargs: Any) -> Any:
            before, self._is_making = self._is_making, True
            try:
                with tf.init_scope():
                    made = getter(name, *args, **kwargs)
            finally:
                self._is_making = before
            self._made[id(made)] = made
            return made

        return make

    def set_collections(self) -> None:
        """Fills the variable collections, and the names of the graph, with exactly the objects of the model."""
        given = [self._stand_ins[name] if name in self._stand_ins else self._given[name] for name in self._order]
        if isinstance(self._graph, SeededGraph):
            self._graph.values.update(zip(self._order, given, strict=True))
        self._set(_KEYS.GLOBAL_VARIABLES, given)
        self._set(_KEYS.TRAINABLE_VARIABLES, [variable for variable in given if variable.trainable])

    def restore_collections(self, before: Mapping[str, list[Any]]) -> None:
        """Restores the variable collections, with the variables that were made appended.

        Args:
          before: collection key to its previous content.

        Raises:
          ModelError: the model made a variable that `get` did not provide.
        """
        made = list(self._made.values())
        unprovided = self._unprovided()
        self._set(_KEYS.GLOBAL_VARIABLES, before[_KEYS.GLOBAL_VARIABLES] + made)
        trainable = [variable for variable in made if variable.trainable]
        self._set(_KEYS.TRAINABLE_VARIABLES, before[_KEYS.TRAINABLE_VARIABLES] + trainable)
        if unprovided and sys.exc_info()[0] is None:
            names = ", ".join(variable.op.name for variable in unprovided)
            raise ModelError(
                f"variable {names} was made in a way that cannot be shared, as in a tf.function that keeps it: use "
                "tf.compat.v1.get_variable."
            )

    def _unprovided(self) -> list[Any]:
        shown = (*self._given.values(), *self._made.values(), *self._stand_ins.values())
        provided = {id(variable) for variable in shown}
        everything = self._graph.get_collection(_KEYS.GLOBAL_VARIABLES)
        return [variable for variable in everything if id(variable) not in provided]

    def _set(self, key: str, variables: list[Any]) -> None:
        self._graph.get_collection_ref(key)[:] = variables


def is_local(kwargs: Mapping[str, Any]) -> bool:
    """Returns True if these arguments of a getter make a local variable, which each worker keeps for itself."""
    collections = kwargs.get("collections") or [_KEYS.GLOBAL_VARIABLES]
    return _KEYS.LOCAL_VARIABLES in collections and _KEYS.GLOBAL_VARIABLES not in collections


def _local_variables(graph: tf.Graph) -> dict[str, Any]:
    """Returns the local variables of all constructions in a graph, by name."""
    collection = graph.get_collection_ref(_LOCAL)
    if not collection:
        collection.append({})
    by_name: dict[str, Any] = collection[0]
    return by_name


def _keras_kind() -> str:
    """Returns the kind of Keras object for which a variable is being made, a key of `_KERAS`; "" for none."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("ps_train", "tensorflow"):
        frame = frame.f_back
    is_keras = False
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("keras."):
        bases = {base.__name__ for base in type(frame.f_locals.get("self")).__mro__}
        if found := next((kind for kind in _KERAS if kind in bases), ""):
            return found
        is_keras, frame = True, frame.f_back
    return "Layer" if is_keras else ""


@contextlib.contextmanager
def _only_tensors_of_this_graph() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        if "must be from the same graph" not in str(error) and "is out of scope" not in str(error):
            raise
        raise ModelError(
            "the model uses a tensor, layer or variable that an earlier call of forward() has made: make all of them "
            f"in forward() itself, at every call ({str(error).splitlines()[0]})"
        ) from error

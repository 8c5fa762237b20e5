"""All variables that a model asks for come from one place, however it asks: get_variable, tf.Variable, Keras layers.

    with variables_from(get) as build:          # get(getter, name, *args, **kwargs), as a custom getter
        outputs = model.forward(features, training=True)

A model is built several times, in graphs that hold different things.  So that its variables have the same names in
each of them, their names depend on the model alone: tf.Variable's are those that it would have in an empty graph.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import ModelError
from ps_train.placement.model_variable import ModelVariable

Getter = Callable[..., Any]

_KEYS = v1.GraphKeys
_LOCAL = "ps_train/local_variables"


class UnknownVariableError(ModelError):
    """The model makes a variable of which nothing was known."""


@contextlib.contextmanager
def variables_provided_by(get: Getter) -> Iterator[ModelBuild]:
    """`get` is called for every variable that is shared; its getter makes TensorFlow's own variable.

    Local variables are made in the present graph, each once however often the model is built in it."""
    graph = v1.get_default_graph()
    before = {key: graph.get_collection(key) for key in (_KEYS.GLOBAL_VARIABLES, _KEYS.TRAINABLE_VARIABLES)}
    with v1.name_scope("model") as scope:
        build = ModelBuild(get, graph, scope.rstrip("/"))
        with (
            v1.variable_scope(v1.get_variable_scope(), custom_getter=build.of_get_variable),
            tf.variable_creator_scope(build.of_variable),
            _keras_names_from_the_beginning(),
            _only_tensors_of_this_graph(),
        ):
            build.show()
            try:
                yield build
            finally:
                build.hide(before)


class ModelBuild:
    """One building of a model.

    Attributes:
      adds_metrics: a variable of which nothing is known is local from now on: it is of the metrics alone.
    """

    def __init__(self, get: Getter, graph: tf.Graph, prefix: str) -> None:
        self._get, self._graph, self._prefix = get, graph, prefix
        self._taken: dict[str, str] = {}
        self._of_variable, self._local_names = set[str](), set[str]()
        self._handed: dict[str, Any] = {}
        self._made: dict[int, Any] = {}
        self._within = False
        self.adds_metrics = False

    def of_get_variable(self, getter: Getter, name: str, *args: Any, **kwargs: Any) -> Any:
        """A custom getter."""
        name = self._own_name(name)
        if self._taken.setdefault(name.lower(), name) != name or name in self._of_variable:
            raise ModelError(f"two variables are called {name} (small and capital letters are the same): rename one.")
        is_new = name not in self._handed
        asked = {**kwargs, "partitioner": None, "regularizer": None, "use_resource": True}
        found = self._found(getter, name, args, asked, kwargs.get("partitioner") is not None)
        if is_new and kwargs.get("regularizer") is not None and not _is_local(kwargs):
            with tf.init_scope():
                v1.add_to_collection(_KEYS.REGULARIZATION_LOSSES, kwargs["regularizer"](found))
        return found

    def _own_name(self, name: str) -> str:
        """The name that a variable has in an empty graph.

        TensorFlow names the moving average of a tensor after the operation, which is in a name scope here, that of a
        variable after its operation, whose name may be taken, and leaves a slash at the end of all of them."""
        if not name.endswith("/"):
            return name
        for own, handed in self._handed.items():
            if name.startswith(f"{handed.op.name}/"):
                return f"{own}{name.removeprefix(handed.op.name)}".rstrip("/")
        return name.removeprefix(f"{self._prefix}/").rstrip("/")

    def of_variable(self, make: Getter, **kwargs: Any) -> Any:
        """A variable creator."""
        if self._within or kwargs.get("variable_def") is not None:
            return make(**kwargs)

        def named(name: str, **asked: Any) -> Any:
            with v1.name_scope(None):
                return make(**{**asked, "name": name})

        name = self._unique(kwargs.pop("name", None) or "Variable")
        if kwargs.get("trainable") is False and _is_keras_asking():
            raise ModelError(
                f"a Keras layer keeps {name}, which it changes by itself: a graph cannot do that. Use tf.nn in "
                "place of such layers: tf.nn.dropout for Dropout, tf.nn.batch_normalization for BatchNormalization."
            )
        return self._found(named, name, (), {**kwargs, "use_resource": True}, in_parts=False)

    def _unique(self, name: str) -> str:
        """The name in the present name scope, with a number behind it if it is taken, as TensorFlow does it."""
        scope = v1.get_default_graph().get_name_scope()
        scope = (scope + "/").removeprefix(self._prefix + "/")
        full = key = f"{scope}{name}".lstrip("/")
        number = 0
        while key.lower() in self._taken:
            number += 1
            key = f"{full}_{number}"
        self._taken[key.lower()] = key
        self._of_variable.add(key)
        return key

    def _found(self, getter: Getter, name: str, args: Any, kwargs: dict[str, Any], in_parts: bool) -> Any:
        if _is_local(kwargs) or name in self._local_names:
            return self._local(getter, name, args, kwargs)
        asked = {**kwargs, "collections": None}
        try:
            found = self._get(self._making(getter), name, *args, **asked)
        except UnknownVariableError:
            if not self.adds_metrics:
                raise
            return self._local(getter, name, args, {**kwargs, "collections": [_KEYS.LOCAL_VARIABLES]})
        if name not in self._handed:
            is_value = isinstance(found, tf.Tensor)
            self._handed[name] = ModelVariable(name, found, in_parts) if is_value else found
            self.show()
        return self._handed[name]

    def _local(self, getter: Getter, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        known = _local_variables(self._graph)
        self._local_names.add(name)
        if name not in known:
            known[name] = made = self._making(getter)(name, *args, **kwargs)
            self._made.pop(id(made))
            self.show()  # tf.Variable knows of no collections
            local = self._graph.get_collection_ref(_KEYS.LOCAL_VARIABLES)
            if not any(one is made for one in local):
                local.append(made)
        return known[name]

    def _making(self, getter: Getter) -> Getter:
        """TensorFlow's own, outside of branches, loops and functions."""

        def make(name: str, *args: Any, **kwargs: Any) -> Any:
            within, self._within = self._within, True
            try:
                with tf.init_scope():
                    made = getter(name, *args, **kwargs)
            finally:
                self._within = within
            self._made[id(made)] = made
            return made

        return make

    def show(self) -> None:
        """The collections hold what the model has been given, and nothing else."""
        handed = list(self._handed.values())
        self._set(_KEYS.GLOBAL_VARIABLES, handed)
        self._set(_KEYS.TRAINABLE_VARIABLES, [one for one in handed if one.trainable])

    def hide(self, before: Mapping[str, list[Any]]) -> None:
        """The collections hold what they held before, and the variables that were made."""
        made = list(self._made.values())
        strays = self._strays()
        self._set(_KEYS.GLOBAL_VARIABLES, before[_KEYS.GLOBAL_VARIABLES] + made)
        trainable = [one for one in made if one.trainable]
        self._set(_KEYS.TRAINABLE_VARIABLES, before[_KEYS.TRAINABLE_VARIABLES] + trainable)
        if strays and sys.exc_info()[0] is None:
            names = ", ".join(one.op.name for one in strays)
            raise ModelError(
                f"variable {names} was made in a way that cannot be shared, as in a tf.function that keeps it: use "
                "tf.compat.v1.get_variable."
            )

    def _strays(self) -> list[Any]:
        ours = {id(one) for one in (*self._handed.values(), *self._made.values())}
        return [one for one in self._graph.get_collection(_KEYS.GLOBAL_VARIABLES) if id(one) not in ours]

    def _set(self, key: str, variables: list[Any]) -> None:
        self._graph.get_collection_ref(key)[:] = variables


def _is_local(kwargs: Mapping[str, Any]) -> bool:
    collections = kwargs.get("collections") or [_KEYS.GLOBAL_VARIABLES]
    return _KEYS.LOCAL_VARIABLES in collections and _KEYS.GLOBAL_VARIABLES not in collections


def _local_variables(graph: tf.Graph) -> dict[str, Any]:
    """Name to local variable, of all buildings in a graph."""
    kept = graph.get_collection_ref(_LOCAL)
    if not kept:
        kept.append({})
    found: dict[str, Any] = kept[0]
    return found


def _is_keras_asking() -> bool:
    """Whether a variable that is being made is one of a Keras layer."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("ps_train", "tensorflow"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).startswith("keras.")


@contextlib.contextmanager
def _keras_names_from_the_beginning() -> Iterator[None]:
    """Keras numbers its layers through the whole process; each building of a model has the same names."""
    naming = sys.modules.get("keras.src.utils.naming")
    if naming is not None:
        naming.reset_uids()
    yield


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

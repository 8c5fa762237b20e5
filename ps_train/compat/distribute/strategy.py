"""A strategy of `tf.distribute` whose models train on ps and workers of ps_train.

    strategy = ParameterServerStrategy(num_ps=2, num_workers=4)         # or the cluster of TF_CONFIG
    with strategy.scope():
        model = keras.Sequential([...])
        model.compile("adam", "mse")
    model.fit(x, y, epochs=5)               # ps_train.keras.fit(model, x, y, epochs=5, num_ps=2, num_workers=4)

The model's other methods are Keras's own: to them the strategy is one device of the calling process.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import inspect
import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.commands.launch.fit import values_of_call
from ps_train.config import flags
from ps_train.modeling.keras.tracing import check_keras, is_tracing

_HERE = "ParameterServerStrategy()"


class ParameterServerStrategy(tf.distribute.OneDeviceStrategy):
    """A strategy whose models train on ps and workers.

    The cluster is that of `TF_CONFIG` if it names one, else processes of this machine.

    Args:
      num_ps: number of ps on this machine; None for the flag's default.
      num_workers: number of workers on this machine, this process included; None for the flag's default.
      **flags: other flags of ps_train by name, as `update="sync"`.

    Attributes:
      flags: the flags that are given to every `fit`.

    Raises:
      ConfigError: a flag is wrong, or tf-keras is in use.
    """

    def __init__(self, num_ps: int | None = None, num_workers: int | None = None, **flags: Any) -> None:
        check_keras()
        given = {"num_ps": num_ps, "num_workers": num_workers, **flags}
        self.flags = {name: value for name, value in given.items() if value is not None}
        self.num_workers = _count_workers(self.flags)
        super().__init__("/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0")
        # Otherwise a model that was made outside of the scope cannot be compiled within it.
        self.extended.colocate_vars_with = lambda variable: contextlib.nullcontext()
        redirect_fit()

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of workers; 1 while a worker's step is traced."""
        return 1 if is_tracing() else self.num_workers

    def run_alone(self) -> None:
        """Makes this process the only worker of the program's own loops."""
        self.num_workers = 1

    @property
    def cluster_resolver(self) -> Any:
        """The cluster and the task of `TF_CONFIG`; its `task_type` is None without that variable."""
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()

    def experimental_run_v2(self, fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Does what `run` does: the name that TensorFlow 2.1 had for it."""
        return self.run(fn, args=args, kwargs=kwargs)


def _count_workers(given: dict[str, Any]) -> int:
    """Returns the number of workers of the cluster that flags and the environment describe.

    Raises:
      ConfigError: a flag is wrong, or is an argument of `fit`.
    """
    of_fit = sorted(given.keys() & inspect.signature(keras.Model.fit).parameters.keys())
    if of_fit:
        raise ConfigError(f"{of_fit[0]} (from {_HERE}) is an argument of fit, not of its strategy: give it to fit.")
    values = values_of_call("", given, "")
    del values["model"]  # the strategy's models come later
    job = parse_flags(flags.as_arguments(values), os.environ).job
    return Cluster.of(with_local_hosts(job)).num_replicas


_strategies: list[ParameterServerStrategy] = []
"""The strategy of models that were made outside of every scope, as the only item; none if they are Keras's own."""


def train_all_models(strategy: ParameterServerStrategy | None) -> None:
    """Gives models that were made outside of every scope to a strategy; None: they are Keras's own again."""
    _strategies[:] = [] if strategy is None else [strategy]


def _strategy_of(model: Any) -> ParameterServerStrategy | None:
    strategy = model.distribute_strategy
    if isinstance(strategy, ParameterServerStrategy):
        return strategy
    return _strategies[0] if _strategies and not tf.distribute.has_strategy() else None


_models_in_fit: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar("models_in_fit", default=frozenset())
"""Identities of the models whose `fit` this thread is in: a further `fit` of one is Keras's own."""


@functools.cache
def redirect_fit() -> None:
    """Lets `keras.Model.fit` train on ps and workers, for a model of a `ParameterServerStrategy`."""
    own_fit: Any = keras.Model.fit

    @functools.wraps(own_fit)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        strategy, models = _strategy_of(self), _models_in_fit.get()
        if strategy is None or id(self) in models:
            return own_fit(self, *args, **kwargs)
        token = _models_in_fit.set(models | {id(self)})
        try:
            return _fit()(self, *args, **kwargs, **strategy.flags)
        finally:
            _models_in_fit.reset(token)

    keras.Model.fit = fit
    _refuse_own_updates()


def _fit() -> Callable[..., Any]:
    return importlib.import_module("ps_train.compat.keras.fit").fit


def _refuse_own_updates() -> None:
    """Lets an optimizer refuse to update variables in the scope of a cluster of several workers.

    Such an update would be made by each worker for itself, on values of its own.
    """
    own_apply: Any = keras.optimizers.Optimizer.apply

    @functools.wraps(own_apply)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        strategy = tf.distribute.get_strategy()
        if isinstance(strategy, ParameterServerStrategy) and strategy.num_replicas_in_sync > 1:
            raise ModelError(
                f"{type(self).__name__}.apply_gradients is called in a loop of the program's own, in the scope of a "
                f"strategy with {strategy.num_workers} workers: each worker would train a model of its own.  Put the "
                "step into the model's train_step and call model.fit, or use one worker."
            )
        return own_apply(self, grads, trainable_variables)

    keras.optimizers.Optimizer.apply = apply

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
import dataclasses
import functools
import importlib
import inspect
import logging
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ps_train.base.console import quiet_console
from ps_train.base.errors import ConfigError, ModelError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.commands.launch.fit import values_of_call
from ps_train.compat.distribute.joined import ask, asked_directory, directory_of_workers, join
from ps_train.compat.distribute.own_data import marked, part_of, whole_of
from ps_train.compat.distribute.own_loops import OF_LOOP, OwnLoop, trained
from ps_train.compat.distribute.scopes import Scope, outside_scopes
from ps_train.compat.train.process_end import end_process_with
from ps_train.config import flags
from ps_train.data.sent.part import Part
from ps_train.data.stream import no_autograph
from ps_train.engine.updates.modes.base import Replica
from ps_train.modeling.keras.tracing import check_keras, is_tracing
from ps_train.training.tasks import ps

log = logging.getLogger(__name__)

_HERE = "ParameterServerStrategy()"
_VERBOSE = 5
"""Arguments of `fit` up to `verbose`, without the model."""


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
        self._parsed = _parse(self.flags)
        self.num_workers = Cluster.of(with_local_hosts(self._parsed.job)).num_replicas
        self._loop: OwnLoop | None = None
        super().__init__("/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0")
        # Otherwise a model that was made outside of the scope cannot be compiled within it.
        self.extended.colocate_vars_with = lambda variable: contextlib.nullcontext()
        redirect_fit()

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of workers that share a batch: all with update="sync", else 1; 1 while a step is traced.

        In TensorFlow's ParameterServerStrategy it is 1 too: a batch is that of one worker.
        """
        return self.num_workers if self._parsed.job.update == "sync" and not is_tracing() else 1

    def scope(self) -> Scope:
        """Returns a context in which models are made; a `fit` leaves it while it trains."""
        return Scope(super().scope)

    def before_fit(self) -> None:
        """Serves in every `fit` of the chief and ends the process, in a ps whose launcher tells when that is over.

        So a ps does not go on in a program with a model that it has not trained, and serves a second `fit`.
        """
        if self._loop is not None:  # its job ends before another begins
            self._loop.finish(None)
            self._loop = None
        task = self._parsed.task
        if asked_directory() and not directory_of_workers() and task.job_name == "ps":
            end_process_with(lambda: join(task, {}))

    def run_alone(self) -> None:
        """Makes this process the only worker of the program's own loops."""
        self.num_workers = 1

    def exchange(self, optimizer: Any, gradients: list[Any], variables: Any) -> None:
        """Makes a step of a loop of the program: the optimizer's variables get the values that the ps compute.

        Args:
          optimizer: the optimizer that the program calls.
          gradients: of the variables; None for a variable without one.
          variables: Keras variables.

        Raises:
          ModelError: the program's loop cannot be trained on this cluster.
        """
        kind = type(optimizer).__name__
        if variables is None:
            raise ModelError(f"{kind}.apply is called without variables: call apply_gradients(zip(gradients, ...)).")
        _, found = trained(gradients, variables := [*variables])
        if not found:
            raise ModelError(f"{kind}.apply_gradients is given no gradient: do the variables have a part in the loss?")
        is_eager = tf.executing_eagerly()
        if self._loop is None:
            with tf.init_scope():  # when a tf.function is traced, before it reads a variable
                loop = self._loop_of(optimizer, found)
                if loop.begin() and is_eager:
                    log.warning(
                        "the first gradients of this worker are those of its own initial values, and not of the "
                        "chief's: call keras.utils.set_random_seed, or make the step a tf.function"
                    )
                self._loop = loop
        self._loop.apply(optimizer, gradients, variables)

    def _loop_of(self, optimizer: Any, variables: list[Any]) -> OwnLoop:
        """Returns the loop of this process, which is not begun; a ps serves and ends here."""
        task = self._parsed.task
        if task.job_name == "local" or directory_of_workers():
            raise ModelError(
                f"{type(optimizer).__name__}.apply_gradients is called in a loop of the program's own, in the scope of "
                f"a strategy with {self.num_workers} workers, and this process alone runs it: run the program in each "
                "of them by python -m ps_train run --num_ps=N --num_workers=N, or call model.fit, or use one worker."
            )
        self.before_fit()
        if asked_directory() and task == Cluster.of(self._parsed.job).chief:
            ask(asked_directory(), as_arguments(self.flags))
        given = {name: value for name, value in self.flags.items() if name != "towers"}
        job = parse_flags(as_arguments({**given, **OF_LOOP}), os.environ).job
        if task.job_name == "ps":
            end_process_with(lambda: ps.run(job, task, quiet_console()))
        return OwnLoop(job, task, optimizer, variables, self.num_replicas_in_sync)

    @property
    def cluster_resolver(self) -> Any:
        """The cluster and the task of `TF_CONFIG`; its `task_type` is None without that variable."""
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Returns this worker's part of a dataset of batches, for a loop of the program.

        With update="sync" it is a piece of each batch, else some of the batches.  A `fit` divides its data itself, and
        in Keras's own loops, such as that of `evaluate`, each process has all of them.
        """
        del options
        replica = self._replica()
        if replica is None or not isinstance(dataset, tf.data.Dataset) or _is_called_by_keras():
            return dataset
        part = Part(replica.declared, replica.index, deal=self.num_replicas_in_sync == 1)
        return part_of(dataset, part, self._parsed.job.seed)

    def distribute_datasets_from_function(self, dataset_fn: Any, options: Any = None) -> Any:
        """Returns the dataset that a function makes of a `tf.distribute.InputContext` for this worker."""
        del options
        if (replica := self._replica()) is None:
            return dataset_fn(tf.distribute.InputContext())
        context = tf.distribute.InputContext(replica.declared, replica.index, self.num_replicas_in_sync)
        return marked(dataset_fn(context), lambda: dataset_fn(tf.distribute.InputContext()))

    @no_autograph
    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        """Returns the sum or mean over the workers, as far as this one knows: it takes the others' values for its own.

        So in a loop of several workers a sum is this worker's value times their number.
        """
        found = super().reduce(reduce_op, value, axis)
        is_sum = str(getattr(reduce_op, "value", reduce_op)).upper() == "SUM"
        if not is_sum or self.num_replicas_in_sync == 1 or self._replica() is None or _is_called_by_keras():
            return found

        def of_all(one: Any) -> tf.Tensor:
            return (one := tf.convert_to_tensor(one)) * tf.cast(self.num_replicas_in_sync, one.dtype)

        return tf.nest.map_structure(of_all, found)

    def _replica(self) -> Replica | None:
        """Returns which of the workers that run the program this process is; None if it is not one of several."""
        task = self._parsed.task
        if self.num_workers == 1 or task.job_name not in ("chief", "worker") or directory_of_workers():
            return None
        return Replica.of(Cluster.of(self._parsed.job), task)

    def experimental_distribute_datasets_from_function(self, dataset_fn: Any, options: Any = None) -> Any:
        """Does what `distribute_datasets_from_function` does: the name that TensorFlow 2.3 had for it."""
        return self.distribute_datasets_from_function(dataset_fn, options)

    def experimental_run_v2(self, fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Does what `run` does: the name that TensorFlow 2.1 had for it."""
        return self.run(fn, args=args, kwargs=kwargs)


def _is_called_by_keras() -> bool:
    """Returns True if Keras has called the method that calls this, perhaps through TensorFlow."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tensorflow."):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("keras.")


def as_arguments(given: dict[str, Any]) -> list[str]:
    """Returns flags as arguments of a command line."""
    values = values_of_call("", given, "")
    del values["model"]  # the strategy's models come later
    return flags.as_arguments(values)


def _parse(given: dict[str, Any]) -> flags.ParsedFlags:
    """Returns the job that flags and the environment describe, and this process's task.

    Raises:
      ConfigError: a flag is wrong, or is an argument of `fit`.
    """
    of_fit = sorted(given.keys() & inspect.signature(keras.Model.fit).parameters.keys())
    if of_fit:
        raise ConfigError(f"{of_fit[0]} (from {_HERE}) is an argument of fit, not of its strategy: give it to fit.")
    parsed = parse_flags(as_arguments(given), os.environ)
    is_local = parsed.task.job_name == "local"
    return parsed if is_local else dataclasses.replace(parsed, task=flags.with_task(parsed.task))


_of_all_models: list[Callable[[], ParameterServerStrategy]] = []
"""Makes the strategy of models that were made outside of every scope, as the only item; none: they are Keras's own."""


def train_all_models(make: Callable[[], ParameterServerStrategy] | None) -> None:
    """Gives models that were made outside of every scope to a strategy; None: they are Keras's own again.

    Args:
      make: returns the strategy.  It is called at the first `fit`, since a strategy initializes TensorFlow's devices,
        which the program may still want to configure.
    """
    _of_all_models[:] = [] if make is None else [functools.cache(make)]


def _strategy_of(model: Any) -> ParameterServerStrategy | None:
    strategy = model.distribute_strategy
    if isinstance(strategy, ParameterServerStrategy):
        return strategy
    return _of_all_models[0]() if _of_all_models and not tf.distribute.has_strategy() else None


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
        args = tuple(map(whole_of, args))
        kwargs = {name: whole_of(value) for name, value in kwargs.items()}
        if _is_quiet(args, kwargs):
            kwargs["verbose"] = 2
        token = _models_in_fit.set(models | {id(self)})
        try:
            strategy.before_fit()
            with outside_scopes():
                return _fit()(self, *args, **kwargs, **strategy.flags)
        finally:
            _models_in_fit.reset(token)

    keras.Model.fit = fit
    _exchange_own_updates()


def _is_quiet(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns whether a fit shows a line for each epoch, where its bar would be a line for each of its changes."""
    is_auto = len(args) < _VERBOSE and kwargs.get("verbose", "auto") == "auto"
    return is_auto and bool(asked_directory())


def _fit() -> Callable[..., Any]:
    return importlib.import_module("ps_train.compat.keras.fit").fit


def _exchange_own_updates() -> None:
    """Lets an optimizer that is called in a cluster of several workers give its gradients to the ps.

    Otherwise each worker would update values of its own.
    """
    own_apply: Any = keras.optimizers.Optimizer.apply

    @no_autograph
    @functools.wraps(own_apply)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        strategy = tf.distribute.get_strategy()
        is_ours = isinstance(strategy, ParameterServerStrategy) and strategy.num_workers > 1
        if is_ours and not is_tracing():
            return strategy.exchange(self, [*grads], trainable_variables)
        return own_apply(self, grads, trainable_variables)

    keras.optimizers.Optimizer.apply = apply

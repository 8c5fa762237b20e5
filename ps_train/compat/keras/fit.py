"""`fit` of a compiled Keras model, as a job of ps and workers.

    history = fit(model, x, y, epochs=5, num_ps=2, num_workers=4)

The calling process is the chief, or with `TF_CONFIG` the task that this names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_train.base import gc_control, malloc
from ps_train.base.console import Console, quiet_console
from ps_train.base.errors import EXIT_DONE, ConfigError, DivergedError, JobFailedError, exit_code_of_signal
from ps_train.base.user_code import UserCodeError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.commands.launch.fit import check_names, texts_of, with_texts
from ps_train.compat.distribute.joined import ask, asked_directory, directory_of_workers
from ps_train.compat.distribute.scopes import outside_scopes
from ps_train.compat.keras.children import children_of
from ps_train.compat.keras.cluster_values import KerasCluster
from ps_train.compat.keras.epochs import EpochDriver, Validation
from ps_train.config import flags
from ps_train.config.job import Job, Task
from ps_train.data.sent.given_arrays import split_arrays
from ps_train.data.sent.sent_data import SentData, sent_data
from ps_train.modeling.keras.sent_model import TracedKerasModel, write_settings
from ps_train.modeling.keras.traced_step import TracedStep, build, trace_step
from ps_train.modeling.keras.tracing import check_keras
from ps_train.training.duties.epochs import Values
from ps_train.training.joining.prepare import prepare
from ps_train.training.tasks import ps, worker

log = logging.getLogger(__name__)

_SENT = "ps_train.modeling.keras.sent_model:SentKerasModel"
_HERE = "ps_train.keras.fit()"

_OF_FIT = ("batch_size", "max_steps", "save_steps", "save_secs", "epochs", "model", "model_arg", "shuffle_buffer")
"""Flags that the arguments of `fit` give."""

_OF_COMPILE = ("optimizer", "optimizer_arg", "learning_rate", "compute_dtype", "accumulate", "sharding", "data_dir")
"""Flags that the model or its data give."""


def fit(
    model: keras.Model,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: Any = True,
    class_weight: Mapping[int, float] | None = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: Any = 1,
    **given: Any,
) -> keras.callbacks.History:
    """Trains a compiled model on ps and workers; then it has the trained weights and its optimizer's state.

    It starts ps and workers on this machine, or takes part in the cluster of `TF_CONFIG` as the task named there.  A ps
    returns when the job is done.

    Args:
      model: a compiled Keras model.
      x: as in `keras.Model.fit`; also a function that makes it, and a source of ps_train.
      y: as in Keras.
      batch_size: examples of a step: of all workers together with update="sync", else of one worker.
      epochs: as in Keras.
      verbose: as in Keras.
      callbacks: as in Keras; they run in the chief's process.
      validation_split: as in Keras.
      validation_data: as in Keras; the chief scores it.
      shuffle: as in Keras.
      class_weight: as in Keras.
      sample_weight: as in Keras.
      initial_epoch: as in Keras.
      steps_per_epoch: as in Keras.
      validation_steps: as in Keras.
      validation_batch_size: as in Keras.
      validation_freq: as in Keras.
      **given: flags of ps_train by name: `num_ps=2, num_workers=4, update="sync", model_dir="runs/a"`.

    Returns:
      Keras's History.

    Raises:
      PsTrainError: ConfigError, ModelError, DataError and RefusedError if something must be corrected; TrainingError
        if the training failed.
      Exception: the one that a callback raised.
    """
    check_keras()
    check_model(model)
    parsed = _parse(_arguments(given))
    task = parsed.task
    if task.job_name == "ps":
        _end_with(ps.run(parsed.job, flags.with_task(task), quiet_console()))
        return keras.callbacks.History()
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = split_arrays(x, y, sample_weight, validation_split)
    data = sent_data(
        x,
        y,
        sample_weight,
        batch_size=batch_size,
        shuffle=shuffle,
        class_weight=class_weight,
        steps_per_epoch=steps_per_epoch,
        seed=parsed.job.seed,
        epochs=epochs - initial_epoch,
    )
    validation = Validation(
        *_unpacked(validation_data), validation_batch_size or batch_size, validation_steps, validation_freq
    )
    call = _Call(model, data, callbacks, epochs, initial_epoch, verbose, validation, given)
    with outside_scopes():
        return call.run(parsed)


@dataclasses.dataclass
class _Call:
    """One call of `fit` in a training task."""

    model: Any
    data: SentData
    callbacks: Any
    epochs: int
    initial_epoch: int
    verbose: Any
    validation: Any
    given: Mapping[str, Any]

    def run(self, parsed: flags.ParsedFlags) -> keras.callbacks.History:
        """Trains as the task; returns the History."""
        is_local = parsed.task.job_name == "local"
        task = None if is_local else flags.with_task(parsed.task)
        is_chief = is_local or task == Cluster.of(parsed.job).chief
        driver = EpochDriver(
            self.model,
            self.callbacks if is_chief else [],
            epochs=self.epochs,
            initial_epoch=self.initial_epoch,
            steps_per_epoch=self.data.steps_per_epoch,
            verbose=self.verbose if is_chief else 0,
            validation=self.validation,
        )
        build(self.model, self.data.element_spec)
        first = driver.begin()
        if first >= self.epochs:
            return driver.end()
        step = trace_step(self.model, self.data.element_spec)
        # Where BackupAndRestore has restored an epoch, which other tasks do not know, the driver ends the job before.
        steps = (self.epochs - self.initial_epoch) * self.data.steps_per_epoch
        malloc.tune_malloc(os.environ)
        with tempfile.TemporaryDirectory(prefix="ps_train_fit_") as directory, gc_control.suspended():
            values: dict[str, Any] = {
                "max_steps": steps,
                "save_steps": self.data.steps_per_epoch,
                "save_secs": 0,
                "shuffle_buffer": 0,
            }
            if not parsed.job.model_dir:
                values["model_dir"] = os.path.join(directory, "run")
            is_sent = is_local or bool(is_chief and directory_of_workers())
            if is_sent:
                values |= {"model": _SENT, "model_arg": (f"path={directory}",)}
            if is_local:
                values["status_port"] = 0 if parsed.job.status_port is None else parsed.job.status_port
            arguments = _arguments(self.given, values)
            job = _parse(arguments).job
            deals = job.update != "sync"
            listener = _Listener(driver, self.model, step)
            fitted = FittedModel(step, self.data, deals, listener)
            console = quiet_console()
            if is_sent:
                step.write(directory)
                self.data.write(directory)
                write_settings(directory, deals)
            if is_chief and not is_local and (launcher := asked_directory()):
                ask(launcher, arguments)  # now, since a ps waits for a job's workers for a limited time
            try:
                if task is not None:
                    self._train(job, task, fitted, console)
                else:
                    with children_of(job, arguments, directory, console) as children:
                        self._train(children.job, Task("worker", 0), fitted, console, children.watch)
            except DivergedError as error:
                if not driver.terminates_on_nan:
                    raise
                log.warning("%s: training ends (TerminateOnNaN), with the values of the last whole epoch", error)
                driver.terminate()
        return self.model.history

    def _train(
        self,
        job: Job,
        task: Task,
        fitted: FittedModel,
        console: Console,
        watch: Callable[[Any], None] = lambda events: None,
    ) -> None:
        cause: BaseException | None = None
        try:
            with tf.device(None), _flags_named_as_arguments():
                code = worker.run(job, task, console, (prepare(job, task, fitted), None), watch)
            _end_with(code)
        except UserCodeError as error:
            cause = error.__cause__
            if cause is None:
                raise
        if cause is not None:
            raise cause


class FittedModel(TracedKerasModel):
    """The model of a fit in the process that called it.

    Args:
      step: the traced step.
      data: the data.
      deals: True if a batch is of one worker.
      listener: told the ends of epochs in the chief, and the end in another worker.
    """

    def __init__(self, step: TracedStep, data: SentData, deals: bool, listener: _Listener) -> None:
        super().__init__(step)
        self._data, self._deals, self._listener = data, deals, listener

    def data(self, split: str, data_dir: str) -> Any:
        """Returns the batches; there is no test split."""
        return self.batches_of(self._data, self._deals) if split == "train" else None

    def epochs(self) -> list[Any]:
        """Returns what is told the ends of epochs, and the last values."""
        return [self._listener]


class _Listener:
    """Drives the callbacks of a fit."""

    def __init__(self, driver: EpochDriver, model: Any, step: TracedStep) -> None:
        self._driver, self._model = driver, model
        self._cluster = KerasCluster(model, step)

    def attach(self, values: Values, step: int) -> None:
        """Begins, or goes on in a new session."""
        self._cluster.attach(values)
        self._cluster.step = step
        self._cluster.new_epoch()
        self._driver.attach(self._cluster, step)

    def hears_steps(self) -> bool:
        """Returns True if a callback hears of batches."""
        return self._driver.hears_batches

    def steps_made(self, step: int) -> bool:
        """Tells the batches."""
        return self._driver.steps_made(step)

    def end_epoch(self, step: int) -> bool:
        """Ends an epoch."""
        self._cluster.step = step
        return self._driver.end_epoch(step)

    def take(self, values: Values, step: int) -> None:
        """Gives the model the values at the end of the job."""
        self._cluster.attach(values)
        self._cluster.step = step
        self._cluster.pull(slots=True)
        history = keras.callbacks.History()
        history.set_model(self._model)
        history.epoch, history.history = json.loads(values.told() or "[[], {}]")
        self._model.history = history

    def end(self) -> bool:
        """Ends the training."""
        self._cluster.is_changed = False
        history = self._driver.end()
        if history is not None:
            numbers = {name: [np.asarray(one).tolist() for one in values] for name, values in history.history.items()}
            self._cluster.values.tell(json.dumps([history.epoch, numbers]))
        if self._cluster.values.step() != self._cluster.step:
            self._cluster.push()  # a worker has made a step after the last epoch
        return self._cluster.is_changed


def check_model(model: Any) -> None:
    """Raises ConfigError for what is not a compiled Keras 3 model."""
    if not isinstance(model, keras.Model):
        raise ConfigError(f"{_HERE} is given a {type(model).__name__}: give a compiled keras.Model.")
    if not model.compiled:
        raise ConfigError(f"model {model.name} is not compiled: call model.compile(...) before {_HERE}.")


def _arguments(given: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> list[str]:
    """Returns the flags of a call as arguments of a command line.

    Args:
      given: the flags of the call.
      own: flags that follow from its other arguments.
    """
    for name in given:
        if name in _OF_FIT:
            raise ConfigError(f"{_HERE} has no flag {name!r}: batch_size, epochs and steps_per_epoch give it.")
        if name in _OF_COMPILE:
            raise ConfigError(f"{_HERE} has no flag {name!r}: it comes from the model's compile() or from the data.")
    named = with_texts({name: value for name, value in given.items() if value is not None})
    check_names(named)
    return flags.as_arguments({**texts_of(named), **(own or {})})


def _parse(arguments: list[str]) -> flags.ParsedFlags:
    """Returns the job and the task of the flags of a call."""
    with _flags_named_as_arguments():
        return parse_flags(arguments, os.environ)


@contextlib.contextmanager
def _flags_named_as_arguments() -> Iterator[None]:
    """Names the call as the source of a wrong flag, which is handed on as a flag of the command line."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(str(error).replace(flags.COMMAND_LINE, _HERE)) from None


def _unpacked(data: Any) -> tuple[Any, Any, Any]:
    if data is None:
        return None, None, None
    return keras.utils.unpack_x_y_sample_weight(data)


def _end_with(code: int) -> None:
    if code == exit_code_of_signal(2):
        raise KeyboardInterrupt
    if code > exit_code_of_signal(0):
        sys.exit(code)
    if code != EXIT_DONE:
        raise JobFailedError(f"the job failed with exit code {code}.")

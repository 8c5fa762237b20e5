"""Epochs of a job as Keras's callbacks see them: the hooks, logs, validation and History of `model.fit`.

    driver = EpochDriver(model, callbacks, epochs=3, steps_per_epoch=100, validation=Validation(x, y, batch_size=32))
    first = driver.begin()                      # before any ps has values: BackupAndRestore loads weights here
    driver.attach(cluster)                      # on_epoch_begin of the first epoch
    is_over = driver.steps_made(20)             # hooks of batches 0 to 19
    is_over = driver.end_epoch(100)             # validation, on_epoch_end; on_epoch_begin of the next epoch
    history = driver.end()                      # on_train_end

The training runs elsewhere.  Steps are made in bursts.  The hooks of a burst's batches are called after the burst, one
batch after the other, all with the newest metrics of the epoch.  So a learning rate that such a hook sets holds from
the next burst on.  Where only the progress bar and the like look at batches, the last batch of a burst stands for all.

A user's callback with hooks of batches finds the weights of the burst's end in the model, or somewhat older ones where
pulling them would take more than a tenth of the time.  Weights that it writes there are not pushed, since the workers
go on.  Weights that it writes in the hooks of epochs are.

It does not know the ps: a `Cluster` moves values.  All is called in one thread, with eager execution.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import keras

from ps_train.base.errors import ConfigError
from ps_train.base.private_tf import restored_epoch, updates_of
from ps_train.compat.keras.callback_needs import (
    Needs,
    counts_batches,
    hears_batches,
    may_read_in_batches,
    needs_of,
    saves_within,
)
from ps_train.compat.keras.written_values import WrittenValues

log = logging.getLogger(__name__)

_PULL_SHARE = 0.1
"""Most of the time that pulls for the hooks of batches may take."""


class Cluster(Protocol):
    """The ps and workers, as far as callbacks need them; the model's object is that of the driver."""

    def pull(self, slots: bool) -> None:
        """Puts the values of the ps into the model's variables; with `slots`, those of the optimizer too."""

    def pull_metrics(self) -> None:
        """Puts the sums of the present epoch over all workers into `model.metrics_variables`."""

    def push(self) -> None:
        """Writes the model's and the optimizer's values to the ps; all workers are at rest."""

    def push_rate(self, rate: float) -> None:
        """Sets the learning rate of all ps, from the next step on."""

    def new_epoch(self) -> None:
        """Begins the sums of the metrics again."""


@dataclasses.dataclass(frozen=True)
class Validation:
    """The data of a validation, and its epochs; the values are those of `model.evaluate`.

    Attributes:
      x: inputs, or a dataset; None: no validation.
      y: targets.
      sample_weight: weights of examples.
      batch_size: examples a batch; None: as Keras.
      steps: batches; None: all.
      freq: every how many epochs; or the epochs, counted from 1.

    Raises:
      ConfigError: `freq` is neither.
    """

    x: Any = None
    y: Any = None
    sample_weight: Any = None
    batch_size: int | None = None
    steps: int | None = None
    freq: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.freq, int | list | tuple | set | range):
            raise ConfigError(
                f"validation_freq={self.freq!r} is not possible: use a number of epochs, or a list of epochs from 1."
            )
        if isinstance(self.freq, int) and self.freq < 1:
            raise ConfigError(f"validation_freq={self.freq} is not possible: use 1 or more.")

    def is_due(self, epoch: int) -> bool:
        """Returns True if an epoch, counted from 0, ends with a validation."""
        if self.x is None:
            return False
        return (epoch + 1) % self.freq == 0 if isinstance(self.freq, int) else epoch + 1 in self.freq

    def run(self, model: Any, callbacks: Any) -> dict[str, Any]:
        """Returns the metrics of the validation."""
        # Keras reads ahead in a generator, and each call of `evaluate` would lose what an earlier one has read ahead.
        x = itertools.islice(self.x, self.steps) if inspect.isgenerator(self.x) and self.steps else self.x
        return model.evaluate(
            (batch for batch in x) if isinstance(x, itertools.islice) else x, self.y, self.batch_size,
            sample_weight=self.sample_weight, steps=self.steps, callbacks=callbacks, return_dict=True,
        )  # fmt: skip


NO_VALIDATION = Validation()


class EpochDriver:
    """Calls the callbacks of a Keras model whose training another makes.

    Args:
      model: a compiled model, whose metrics are built.
      callbacks: as those of `model.fit`: None, one, a list, or a `keras.callbacks.CallbackList`.
      epochs: number of the last epoch, counted from 1.
      initial_epoch: the first epoch, counted from 0.
      steps_per_epoch: global steps of an epoch; None: an epoch ends where `end_epoch` is called.
      verbose: as that of `model.fit`.
      validation: the data of validations.
      step_logs: returns what the model's `train_step` has returned for the newest step; needed where these are not its
        metrics, as with an own `train_step` that returns other values.
    """

    def __init__(
        self,
        model: Any,
        callbacks: Any = None,
        *,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        verbose: int | str = "auto",
        validation: Validation = NO_VALIDATION,
        step_logs: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        self._model, self._given, self._verbose = model, callbacks, verbose
        self._epochs, self._initial_epoch, self._steps_per_epoch = epochs, initial_epoch, steps_per_epoch
        self._validation, self._step_logs = validation, step_logs
        self._callbacks: Any = None
        self._all: list[Any] = []
        self._cluster: Cluster | None = None
        self._first = initial_epoch
        self._epoch, self._epoch_start, self._step = initial_epoch, 0, 0
        self._heard = 0
        """Step up to which callbacks have heard of batches."""
        self._counted = 0
        """Step from which callbacks with a `save_freq` count the next batches; after a resume the epoch's begin."""
        self._first_iteration = 0
        self._pulled = Needs.LOGS
        self._seen: WrittenValues | None = None
        self._rate: float | None = None
        self._logs: dict[str, Any] | None = None
        self._next_pull, self._is_warned = 0.0, False

    @property
    def is_over(self) -> bool:
        """True if no epoch is left."""
        return self._epoch >= self._epochs

    @property
    def hears_batches(self) -> bool:
        """True if a callback hears of batches; known after `begin`."""
        return any(hears_batches(callback) for callback in self._all)

    def begin(self) -> int:
        """Calls `on_train_begin`, and returns the first epoch; the ps must get the model's values afterwards."""
        self._callbacks = self._list_of(self._given)
        self._all = [callback for callback in self._callbacks.callbacks if type(callback) is not _InThisThread]
        self._model.stop_training = False
        self._callbacks.on_train_begin()
        self._first = self._epoch = restored_epoch(self._model) or self._initial_epoch
        return self._first

    def attach(self, cluster: Cluster, step: int = 0, first_epoch: int | None = None) -> None:
        """Begins the epoch of a step, when the ps have values.

        Args:
          cluster: the ps and workers.
          step: the job's global step; above 0 for a resumed job.
          first_epoch: epoch of step 0; None: the one that `begin` has returned for a job that began here, and
            `initial_epoch` for a resumed one, since its values are those of the job and not of BackupAndRestore.
        """
        if self._cluster is None and step:
            self._first = self._initial_epoch
        self._cluster = cluster
        first = self._first if first_epoch is None else first_epoch
        whole, within = divmod(step, self._steps_per_epoch) if self._steps_per_epoch else (0, 0)
        self._epoch, self._epoch_start = first + whole, step - within
        self._step = self._heard = step
        self._counted = self._epoch_start
        self._first_iteration = int(updates_of(self._model.optimizer).numpy()) - step
        self._pull(Needs.ALL if step else self._needs())
        if self.is_over:
            return
        if not within:
            cluster.new_epoch()
        self._begin_epoch()

    def steps_made(self, step: int) -> bool:
        """Calls the hooks of the batches that were made since the last time.

        Args:
          step: global step that the job has reached, at most the end of the epoch.

        Returns:
          True if a callback has stopped the training: the caller brings all workers to rest, and calls `end_epoch`
          with the step that they have reached.
        """
        self._to_step(step)
        if step == self._epoch_start:
            return False  # Keras, too, makes at least one step of an epoch
        if step > self._heard and self.hears_batches:
            logs = self._metrics()
            self._pull_within_epoch()
            self._hear(logs)
            self._warn_of_what_was_written()
        return bool(self._model.stop_training)

    def end_epoch(self, step: int) -> bool:
        """Ends the epoch, with all workers at rest; begins the next one unless the training stops.

        Args:
          step: global step that all workers have reached.

        Returns:
          True if the training is over: the caller calls `end`.
        """
        self._to_step(step)
        logs = self._metrics()
        validates = self._validation.is_due(self._epoch)
        is_last = self._model.stop_training or self._epoch + 1 >= self._epochs
        self._pull(Needs.ALL if is_last else max(self._needs(), Needs.WEIGHTS if validates else Needs.LOGS))
        if self._pulled is not Needs.ALL:
            self._count_iterations()
        self._hear(logs)
        if validates:
            found = self._validation.run(self._model, self._callbacks)
            logs = logs | {f"val_{name}": value for name, value in found.items()}
            self._look_at_rate()
        self._logs = logs
        self._callbacks.on_epoch_end(self._epoch, logs)
        self._look_at_rate()
        self._epoch, self._epoch_start = self._epoch + 1, step
        if self._model.stop_training or self.is_over:
            return True
        self._attached.new_epoch()
        self._begin_epoch()
        return False

    def end(self) -> Any:
        """Ends the training: the model has all values of the ps, and what callbacks wrote goes to the ps.

        All workers are at rest.

        Returns:
          the `keras.callbacks.History`; None if the user's CallbackList has none.
        """
        if self._cluster is not None:
            self._pull(Needs.ALL)
        optimizer = self._model.optimizer
        if isinstance(optimizer, keras.optimizers.Optimizer) and self._epochs > 0:
            optimizer.finalize_variable_values(self._model.trainable_weights)
        self._callbacks.on_train_end(self._logs)
        self._look_at_rate()
        self._push_what_was_written()
        return getattr(self._model, "history", None)

    @property
    def terminates_on_nan(self) -> bool:
        """True if a callback ends the training at a loss that is not finite; known after `begin`."""
        return any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in self._all)

    def terminate(self) -> None:
        """Ends the training where the job has failed, so that no ps has values any more."""
        self._model.stop_training = True
        self._callbacks.on_train_end(self._logs)

    @property
    def _attached(self) -> Cluster:
        assert self._cluster is not None, "attach comes first"
        return self._cluster

    def _list_of(self, given: Any) -> Any:
        if isinstance(given, keras.callbacks.CallbackList):
            return given
        return keras.callbacks.CallbackList(
            [*(keras.tree.flatten(given) if given else []), _InThisThread()],
            add_history=True,
            add_progbar=self._verbose != 0,
            verbose=self._verbose,
            epochs=self._epochs,
            steps=self._steps_per_epoch,
            model=self._model,
        )

    def _begin_epoch(self) -> None:
        self._model.reset_metrics()
        self._callbacks.on_epoch_begin(self._epoch)
        self._look_at_rate()
        self._push_what_was_written()

    def _to_step(self, step: int) -> None:
        if step != self._step:
            self._step, self._pulled = step, Needs.LOGS

    def _needs(self) -> Needs:
        return max((needs_of(callback) for callback in self._all), default=Needs.LOGS)

    def _metrics(self) -> dict[str, Any]:
        """Returns the metrics of the present epoch, as numbers; as in Keras, a step's logs where they are others."""
        self._attached.pull_metrics()
        metrics, logs = self._model.get_metrics_result(), self._step_logs()
        shown = metrics if logs is None or logs.keys() == metrics.keys() else dict(logs)
        return dict(keras.tree.map_structure(keras.ops.convert_to_numpy, shown))

    def _hear(self, logs: dict[str, Any]) -> None:
        """Calls the hooks of all batches that callbacks have not heard of; none after one has stopped the training."""
        begin, end = self._heard - self._epoch_start, self._step - self._epoch_start
        if end <= begin or (begin and self._model.stop_training):
            return  # after a recovery, steps are made again; after a stop, Keras calls no hooks of batches
        self._heard = self._counted = self._step
        if not any(counts_batches(callback) for callback in self._all):
            begin = max(begin, end - 1)
        for batch in range(begin, end):
            self._callbacks.on_train_batch_begin(batch)
            self._callbacks.on_train_batch_end(batch, logs)
            if self._model.stop_training:
                break
        self._look_at_rate()

    def _pull_within_epoch(self) -> None:
        """Pulls what the hooks of batches may read; the workers go on, so that these values are of no one step."""
        now = time.monotonic()
        if any(saves_within(callback, self._step - self._counted) for callback in self._all):
            self._pull(Needs.ALL)
        elif now >= self._next_pull and any(may_read_in_batches(callback) for callback in self._all):
            self._pull(Needs.WEIGHTS)
            done = time.monotonic()
            self._next_pull = done + (done - now) / _PULL_SHARE
        self._pulled = Needs.LOGS

    def _warn_of_what_was_written(self) -> None:
        if not self._is_warned and self._seen is not None and self._seen.are_there():
            self._is_warned = True
            log.warning(
                "weights that a callback writes in the hooks of a batch are not trained on: the workers go on with "
                "theirs; write them in on_epoch_begin or on_epoch_end"
            )

    def _pull(self, needs: Needs) -> None:
        """Puts values into the model, unless it has them for this step."""
        if needs <= self._pulled:
            return
        self._seen = None  # which would keep the memory of the values before
        self._attached.pull(slots=needs is Needs.ALL)
        if needs is Needs.ALL:
            self._first_iteration = int(updates_of(self._model.optimizer).numpy()) - self._step
        else:
            self._count_iterations()
        if self._rate is not None and self._rate_variable is not None:
            self._rate_variable.assign(self._rate)  # which only callbacks change
        self._pulled = needs
        self._seen = WrittenValues(self._values())

    def _count_iterations(self) -> None:
        """Counts the steps in the model's optimizer, which is cheaper than to pull its variables."""
        updates_of(self._model.optimizer).assign(self._first_iteration + self._step)

    @property
    def _rate_variable(self) -> Any:
        """The learning rate, if it is a variable; a schedule changes on the ps, and a MultiOptimizer has none."""
        rate = getattr(self._model.optimizer, "learning_rate", None)
        return rate if isinstance(rate, keras.Variable) else None

    def _values(self) -> list[Any]:
        """Returns the variables that are pushed if they were written; the learning rate goes another way."""
        rate = self._rate_variable
        return [*self._model.variables, *(v for v in self._model.optimizer.variables if v is not rate)]

    def _push_what_was_written(self) -> None:
        if self._pulled is Needs.ALL and self._seen is not None and self._seen.are_there():
            self._attached.push()
            self._seen = WrittenValues(self._values())

    def _look_at_rate(self) -> None:
        """Pushes the learning rate if a callback has changed it."""
        rate = self._rate_variable
        if self._cluster is not None and rate is not None and (now := float(rate)) != self._rate:
            self._cluster.push_rate(now)
            self._rate = now


class _InThisThread(keras.callbacks.Callback):
    """Makes Keras call all hooks in the present thread, and not in others, as it does where no hook of a batch is."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Does nothing; Keras looks whether it is there."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Does nothing, as `on_train_batch_end`."""

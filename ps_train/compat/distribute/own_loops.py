"""Loops of a program's own, in each worker of a cluster: `optimizer.apply_gradients` is a step of the engine.

    loop = OwnLoop(job, task, optimizer, variables, factor=num_workers)
    loop.begin()                                        # the variables have the chief's values
    loop.apply(optimizer, gradients, variables)         # in a tf.function or not: they have those after the step

Every worker runs the program as it is.  The engine trains in a thread, with all that it has: modes, recovery,
checkpoints.  Its model is the program's loop (`exchange_model.py`).  It begins when `apply` is called, or traced, for
the first time: then the worker gets the values of the chief.  It ends with the program.

Variables that the optimizer does not update, such as those of batch normalization and of metrics, are each worker's
own.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.console import quiet_console
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, ModelError, TrainingError
from ps_train.base.private_tf import updates_of
from ps_train.base.signals import GRACE_SECS, MainThreadEvents
from ps_train.base.user_code import describe
from ps_train.compat.distribute.exchange import Exchange
from ps_train.compat.distribute.exchange_model import ExchangeModel
from ps_train.compat.scripts.program_end import tell_at_the_end
from ps_train.config.error_line import error_line
from ps_train.config.job import Job, Task
from ps_train.config.job_values import NO_LIMIT
from ps_train.modeling.keras.names import variable_keys
from ps_train.modeling.keras.rules import trace_rules
from ps_train.modeling.keras.tracing import tracing
from ps_train.training.joining.prepare import prepare
from ps_train.training.tasks import worker

OF_LOOP: Mapping[str, Any] = {"max_steps": NO_LIMIT, "epochs": 1, "steps_per_run": 1, "shuffle_buffer": 0}
"""Flags that a loop gives: its end is that of the program, and each step waits for it."""


class OwnLoop:
    """The loop of the program in this process.

    Args:
      job: the job.
      task: this process's, a worker or the chief.
      optimizer: the optimizer that updates.
      variables: the Keras variables that it updates.
      factor: see `ExchangeModel`.
      leave: ends the process with an exit code, where the program cannot go on.
    """

    def __init__(
        self,
        job: Job,
        task: Task,
        optimizer: Any,
        variables: Sequence[Any],
        factor: float,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._job, self._task, self._factor, self._leave = job, task, factor, leave
        self._optimizer, self._variables = optimizer, list(variables)
        self._exchange, self._events = Exchange(), list[MainThreadEvents]()
        self._has_begun, self._has_ended, self._has_failed, self._code = False, False, False, EXIT_DONE
        self._thread = threading.Thread(target=self._train, name="ps_train_loop", daemon=True)

    def begin(self) -> bool:
        """Starts the engine, and gives the variables the values with which the training begins.

        Returns:
          True if some variables had other values before.

        Raises:
          PsTrainError: the engine cannot train this.
        """
        before = [variable.numpy() for variable in self._variables]
        self._thread.start()
        values = self._exchange.first_values()
        self._has_begun = True
        tell_at_the_end(self.finish)
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)
        return any(not np.array_equal(*pair) for pair in zip(before, values, strict=True))

    def apply(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Makes a step: gives the variables the values after it.

        Args:
          optimizer: must be that of the loop.
          gradients: of the variables; None for a variable that keeps its value.
          variables: must be those of the loop, or further ones without a gradient.

        Raises:
          ModelError: it is another optimizer, or they are other variables.
        """
        if optimizer is not self._optimizer:
            raise ModelError(
                f"{type(optimizer).__name__} {optimizer.name} is a second optimizer in the loops of this program, "
                "whose workers train by one: use one optimizer, or one worker."
            )
        given, found = trained(gradients, variables)
        if [id(one) for one in found] != [id(one) for one in self._variables]:
            names = ", ".join(sorted({one.path for one in found} ^ {one.path for one in self._variables})) or "order"
            raise ModelError(
                f"{type(optimizer).__name__}.apply_gradients is given other variables than at its first call ({names}):"
                " in a cluster of several workers it must update the same ones each time."
            )
        dtypes = [tf.as_dtype(one.dtype) for one in found]
        dense = [tf.cast(tf.convert_to_tensor(one), dtype) for one, dtype in zip(given, dtypes, strict=True)]
        with tf.device("/device:CPU:0"):
            values = tf.numpy_function(self._step, dense, dtypes)
        for variable, value in zip(found, values, strict=True):
            variable.assign(tf.ensure_shape(value, variable.shape))
        updates_of(optimizer).assign_add(1)

    def _step(self, *gradients: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        return [*self._exchange.apply(gradients)]

    def finish(self, error: BaseException | None) -> int:
        """Ends the input of this worker and waits for the end of the job; returns the exit code.

        Args:
          error: the exception that has ended the program, which ends the job at once; None: it has ended well.
        """
        self._has_ended = True
        if error is None:
            self._exchange.end()
            self._thread.join()
            return self._code
        self._has_failed = True
        for events in self._events:
            events.set_terminal_error(TrainingError(f"the program of {self._task} failed: {describe(error)}"))
        self._thread.join(GRACE_SECS)
        return EXIT_FAILED

    def _train(self) -> None:
        """Runs the engine, in its own thread."""
        cause: BaseException | None = None
        try:
            self._code = self._run()
        except BaseException as error:
            self._code, cause = getattr(error, "exit_code", EXIT_FAILED), error
        self._exchange.close(cause)
        if not self._has_begun or self._has_failed:
            return  # the program raises the error, or has shown its own
        if cause is not None:
            print(error_line(cause), file=sys.stderr, flush=True)
        if self._code != EXIT_DONE and not self._has_ended:
            sys.stdout.flush()
            self._leave(self._code)  # the program may be anywhere

    def _run(self) -> int:
        keys = variable_keys(self._variables)
        with tracing():
            rules = trace_rules(self._optimizer, self._variables, keys)
        if rules.loss_scale is not None:
            raise ModelError(
                f"{type(self._optimizer).__name__} changes the factor of the loss where a gradient is not finite, "
                "which a loop of several workers cannot: use bfloat16, or put the step into the model's train_step and "
                "call model.fit."
            )
        values = {key: variable.numpy() for key, variable in zip(keys, self._variables, strict=True)}
        model = ExchangeModel(values, rules, self._exchange, self._factor)
        with tempfile.TemporaryDirectory(prefix="ps_train_loop_") as directory:
            job = self._job
            if not job.model_dir:
                job = dataclasses.replace(job, model_dir=os.path.join(directory, "run"))
            given = prepare(job, self._task, model), None
            return worker.run(job, self._task, quiet_console(), given, self._events.append)


def trained(gradients: Sequence[Any], variables: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the gradients that are there, and their variables."""
    pairs = [(one, variable) for one, variable in zip(gradients, variables, strict=True) if one is not None]
    return [one for one, _ in pairs], [variable for _, variable in pairs]

"""The duties of a worker that is not the chief."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base import gc_control
from ps_train.training.loop.duties import Duties
from ps_train.training.loop.session import agree_with_chief, await_ready
from ps_train.training.loop.worker_training import WorkerTraining

log = logging.getLogger(__name__)


class WorkerDuties(Duties):
    """Duties of a worker that is not the chief: it agrees with the chief, and waits for it."""

    def __init__(self, training: WorkerTraining) -> None:
        self._training, self._context = training, training.context

    def agree(self) -> None:
        """Compares the job with the chief's; raises RefusedError if they differ."""
        context = self._context
        timeout_secs = context.job.startup_timeout_secs
        agree_with_chief(context.stores[0], context.description, context.cluster, str(context.task), timeout_secs)
        log.info("%s joined the job of the chief, %s", context.task, context.cluster.chief)

    def chief_only_hooks(self) -> list[Any]:
        """Returns no hooks: only the chief reports and saves."""
        return []

    def prepare(self, session: v1.Session) -> int:
        """Waits until the chief has prepared the model, and opens the input; returns the global step."""
        training, context = self._training, self._context
        session.run(training.step.uninitialized)  # connects to every ps now, not in the first step
        gc_control.resume()
        ready = await_ready(context.stores, str(context.cluster.chief), context.job.startup_timeout_secs)
        training.enter_generation(ready)
        step = int(session.run(training.step.global_step))
        training.step.local.prepare(session)
        training.open_input(step)
        log.info("%s training from global step %d", context.task, step)
        return step

    def train(self, session: Any) -> None:
        """Makes steps, and waits for more, until the main thread ends the process."""
        self._training.begun = True
        while True:
            self._training.wait_for_more(self._training.run_loop(session))

    def before_release(self) -> None:
        """Does nothing: a worker has no work of its own in a session."""

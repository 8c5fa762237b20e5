"""The hooks of the user's model."""

from __future__ import annotations

import logging
from collections.abc import Callable

import tensorflow.compat.v1 as v1

from ps_train.cluster.membership import records
from ps_train.engine.step.model_hooks import ModelHooks
from ps_train.training.duties.duty import Bursts, Duty, Setting

log = logging.getLogger(__name__)


class UserHooks(Duty):
    """The hooks of the model, and requests to end the training.

    Args:
      setting: what duties are made of.
      ends_all: if True, one of them ends the training of all tasks, else that of this task.
    """

    def __init__(self, setting: Setting, ends_all: bool) -> None:
        self._task, self._heartbeat = setting.prepared.task, setting.joined.heartbeat
        self._store, self._ends_all = setting.joined.stores[0], ends_all
        self._hooks = ModelHooks(
            setting.prepared.model, self._requested, may_feed=not setting.prepared.job.has_local_steps
        )
        self.hooks = self._hooks.hooks
        self.bursts = Bursts(alone=self._hooks.run_alone, often=bool(self.hooks))
        self.end_training: Callable[[str], None] = self._hooks.end_training

    def _requested(self, hook: str) -> None:
        log.info("%s: %s ends the training", self._task, hook)
        if self._ends_all:
            self._store.set(records.TRAINED, hook)

    @property
    def have_ended(self) -> bool:
        """True if a hook of this task, or one for all tasks, has ended the training."""
        return self._hooks.have_ended or self._heartbeat.is_trained

    @property
    def have_left(self) -> bool:
        """True if a hook has ended the training of this task alone."""
        return self._hooks.have_ended and not self._ends_all

    def waiting(self, session: v1.Session) -> None:
        """Tells the hooks the end when the training is over for all tasks."""
        if self._heartbeat.is_ending:
            self.close(session)

    def done(self, session: v1.Session | None) -> None:
        """Tells the hooks the end."""
        self.close(session)

    def announce_end(self) -> None:
        """Tells the other tasks that the training is over, so that their hooks end before the last checkpoint."""
        if self.hooks:
            self._store.set(records.ENDING, str(self._task))

    def close(self, session: v1.Session | None) -> None:
        """Tells the hooks the end of the training, once; any thread."""
        self._hooks.close(session)

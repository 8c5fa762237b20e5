"""Where the model on the ps comes from: the chief initializes or restores it, another worker waits for that."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import tensorflow.compat.v1 as v1

from ps_train.training.duties.duty import Model, ModelState, Setting, Start
from ps_train.training.duties.first_values import WriteValues
from ps_train.training.duties.progressing import Progressing
from ps_train.training.duties.recovery import Recovery
from ps_train.training.duties.saving import Saving
from ps_train.training.joining.join import JoinedAsChief
from ps_train.training.joining.told_by_chief import await_ready, ready_records

log = logging.getLogger(__name__)


class OwnModel(Model):
    """The chief's: what the ps have lost is initialized or restored."""

    def __init__(
        self,
        setting: Setting,
        joined: JoinedAsChief,
        saving: Saving,
        progressing: Progressing,
        first_values: Sequence[WriteValues],
    ) -> None:
        prepared = setting.prepared
        self._progressing, self._stores = progressing, joined.stores
        self._is_partial = prepared.job.recovery_mode == "partial"
        self._recovery = Recovery(
            job=prepared.job,
            stores=joined.stores,
            step=setting.step,
            checkpoints=saving.checkpoints,
            console=setting.console,
            chief_process=joined.heartbeat.process_id,
            chief_task=str(prepared.task),
            members=joined.membership.present,
            set_aside=joined.model_directory.set_aside,
            first_values=first_values,
        )

    def prepare(self, session: v1.Session) -> ModelState:
        """Initializes or restores the missing parts of the model."""
        found = ready_records(self._stores)
        ready = self._recovery.prepare(session, found, self._progressing.known_step)
        # What is restored whole is what the checkpoint holds; else a ps may have made updates since.
        is_restored = None in found and not self._is_partial
        return ModelState(ready, ready.step, any(found), any(found) and not is_restored)


class AwaitedModel(Model):
    """Another worker's: it waits until the chief has prepared the model."""

    def __init__(self, setting: Setting) -> None:
        self._stores, self._global_step = setting.joined.stores, setting.step.ps.global_step
        self._task, self._chief = str(setting.prepared.task), str(setting.prepared.cluster.chief)
        self._timeout_secs = setting.prepared.job.startup_timeout_secs

    def prepare(self, session: v1.Session) -> ModelState:
        """Waits for the chief."""
        ready = await_ready(self._stores, self._chief, self._timeout_secs)
        return ModelState(ready, int(session.run(self._global_step)))

    def opened(self, session: v1.Session, start: Start) -> None:
        """Says where the training goes on; the chief shows more than that."""
        log.info("%s training from global step %d", self._task, start.step)

"""What a task trains on: an input of its own, shards that it shares, or partitions of data without an end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.cluster.membership.liveness import PeerStates
from ps_train.data.pipeline import derived_seed
from ps_train.data.split import no_examples, no_rows
from ps_train.data.unbounded.row_gate import RowGate
from ps_train.engine.step.model_hooks import ShardProgressHook
from ps_train.training.duties.duty import Bursts, End, Feed, Setting, Start
from ps_train.training.loop.partition_client import PartitionClient
from ps_train.training.loop.shard_client import OwnershipClient, ShardClient
from ps_train.training.loop.step_sources import StepSource

log = logging.getLogger(__name__)


class OwnFeed(Feed):
    """An input of the task's own: its part of the data, in an order of its own."""

    def __init__(self, setting: Setting) -> None:
        prepared = setting.prepared
        self._task, self._name, self._seed = prepared.task, prepared.source.name, prepared.job.seed
        self._input, self._index = setting.input, prepared.replica.index
        self._lockstep = setting.step.lockstep
        self._is_open = self._has_ended = False

    def opened(self, session: v1.Session, start: Start) -> None:
        """Opens the input once, for all sessions, or at the step of each; its order depends on the job's first step."""
        if not self._is_open or self._input.begins_anywhere:
            self._is_open = True
            self._input.begin(derived_seed(self._seed, "shuffle", self._index, start.step), start.step)

    def interrupted(self) -> None:
        """Opens the input again in the next session."""
        self._is_open = False
        log.warning("%s: the input was interrupted when a ps was lost; it starts again", self._task)

    def loop_ended(self, has_input_ended: bool) -> bool:
        """Returns whether the input has ended."""
        self._has_ended = has_input_ended
        return has_input_ended

    def has_more(self, are_steps_left: Callable[[], bool]) -> bool:
        """Returns True if steps were given back; in lockstep there are none."""
        return not self._has_ended and not self._lockstep and are_steps_left()

    def is_exhausted(self, others: PeerStates) -> bool:
        """Returns True if no worker has input left; in lockstep one without input ends the job."""
        return self._lockstep or (self._has_ended and not others.waiting)

    def nothing(self) -> DataError:
        """Names the data."""
        return no_examples(self._name)


class SharedFeed(Feed):
    """Shards of the data, which workers acquire as they need them."""

    takes_ahead = False
    bursts = Bursts(often=True)

    def __init__(self, setting: Setting) -> None:
        prepared, worker = setting.prepared, setting.step.worker
        self._task, self._name = prepared.task, prepared.source.name
        self._lockstep = setting.step.lockstep
        self._client = self._client_of(setting)
        assert worker.batches.progress is not None, "the data are shared"
        self.hooks: Sequence[v1.train.SessionRunHook] = [
            ShardProgressHook(worker.batches.progress, self._client.step_done)
        ]

    def _client_of(self, setting: Setting) -> OwnershipClient:
        replica = setting.prepared.replica
        return ShardClient(setting.step, replica, setting.prepared.job, replica.declared, setting.input.begin)

    def source(self, steps: StepSource) -> StepSource:
        """Returns the shards: as many steps as there are batches of them."""
        return self._client

    def begin(self, session: v1.Session, steps: StepSource) -> None:
        """Begins without any shard."""
        self._client.begin(session, steps)

    def interrupted(self) -> None:
        """Says so; shards are acquired anew whenever the loop begins."""
        log.warning("%s: the input was interrupted when a ps was lost; it starts again", self._task)

    def lost(self) -> None:
        """Forgets the shards: the input's threads may use the session's device."""
        self._client.drop()

    def loop_ended(self, has_input_ended: bool) -> bool:
        """Returns True if all data are used; else shards may become free later."""
        return self._client.is_over()

    def has_more(self, are_steps_left: Callable[[], bool]) -> bool:
        """Returns True if there are shards to acquire, and steps are left."""
        return self._client.has_work() and (self._lockstep or are_steps_left())

    def is_exhausted(self, others: PeerStates) -> bool:
        """Returns True if all data are used; dead workers do not release their shards, so they are freed."""
        if self._client.is_over():
            return True
        self._client.release_all()
        return False

    def nothing(self) -> DataError:
        """Names the data."""
        return no_examples(self._name)

    def ended(self, end: End) -> None:
        """Ends what runs beside the input."""
        self._client.close()


class PartitionFeed(SharedFeed):
    """Partitions of data without an end."""

    waits_for_rows = True
    _partitions: PartitionClient

    def __init__(self, setting: Setting, gate: RowGate) -> None:
        self._gate = gate
        super().__init__(setting)
        setting.joined.telemetry.include(self._partitions.measured)

    def _client_of(self, setting: Setting) -> OwnershipClient:
        prepared, restart = setting.prepared, setting.input.begin
        self._partitions = PartitionClient(setting.step, prepared.replica, prepared.job, restart, self._gate)
        return self._partitions

    def nothing(self) -> DataError:
        """Names the source."""
        return no_rows(self._partitions.source_name)

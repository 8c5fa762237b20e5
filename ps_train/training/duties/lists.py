"""The duties of a worker and of the chief: the one place that makes them, in the one order that counts.

    role = Chief(prepared, joined, console)
    role.planned(plan, weights), role.agreed(agreed)    # before the graph, which may take minutes to build
    parts = role.parts(setting)                    # in the graph of the step

The order of the list is that of all calls in the training thread, and of session hooks.  Why:

- `Confirming` comes first: a session that the others do not agree with makes nothing of its own.
- `Members` before `Progressing`: states are read before the step, or the last step of a worker that ends now is missed.
- Hooks of the chief before those of the model, as in `MonitoredTrainingSession`.
- `Progressing` before `TrackingRun` and `EventCuts`: the last point is written before the tracker ends, and cuts know
  the step.
- `Progressing` before the rounds: the clock of the training starts before a rack waits for its first values.
- The rounds open last, when nothing else is in the way of a step, and pause first of those that take time: the others
  wait for this task until it has left.  What a codec holds is handed over after that.
- `Profiling` pauses last: it may take a minute.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Protocol

from ps_train.base.console import Console
from ps_train.base.lifecycle import event
from ps_train.base.process_stats import instruction_set_line
from ps_train.cluster.topology import Topology
from ps_train.data.unbounded.row_gate import OPEN, RowGate
from ps_train.engine.step.parts.loss_scaling import LossScaling
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.variables.plan import Plan
from ps_train.observe.progress.progress import EventFile
from ps_train.observe.progress.summaries import text_of
from ps_train.observe.tracking.trackers import make_tracking
from ps_train.training.duties.deltas import Deltas
from ps_train.training.duties.duty import Duty, Ending, Feed, Model, Rounds, Saves, Setting
from ps_train.training.duties.epochs import Epochs, LastValues
from ps_train.training.duties.event_cuts import EventCuts
from ps_train.training.duties.feeds import OwnFeed, PartitionFeed, SharedFeed
from ps_train.training.duties.final_evaluation import ScoringForChief
from ps_train.training.duties.finishing import Finishing
from ps_train.training.duties.first_values import first_values
from ps_train.training.duties.members import Members
from ps_train.training.duties.models import AwaitedModel, OwnModel
from ps_train.training.duties.outputs import Advising, Exporting, Uploading
from ps_train.training.duties.progressing import ModelSummaries, Progressing, TrackingRun
from ps_train.training.duties.rack_display import RackDisplay
from ps_train.training.duties.rack_rounds import RackRounds
from ps_train.training.duties.rounds import FlatRounds
from ps_train.training.duties.saving import AwaitedSaves, Saving
from ps_train.training.duties.scaled_loss import ScaledLoss
from ps_train.training.duties.step_duties import (
    Adapting,
    Confirming,
    EarlyStop,
    HeldResiduals,
    Labels,
    Profiling,
)
from ps_train.training.duties.user_hooks import UserHooks
from ps_train.training.joining.agreement import Agreed
from ps_train.training.joining.join import JoinedAsChief
from ps_train.training.joining.measured_weights import MeasuredWeights
from ps_train.training.joining.prepare import BuiltStep, Prepared, build_step
from ps_train.training.joining.warm_starts import FoundWarmStart
from ps_train.training.loop.event_gate import event_gates

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Parts:
    """The duties of a task.

    Attributes:
      model, feed, rounds, saves, ending, user_hooks: those of which there is one each; they are in `duties` too.
      duties: all of them, in their order.
    """

    model: Model
    feed: Feed
    rounds: Rounds
    saves: Saves
    ending: Ending
    user_hooks: UserHooks
    duties: Sequence[Duty]


class Role(Protocol):
    """What a task is in its job: a worker, or the chief."""

    def planned(self, plan: Plan, weights: MeasuredWeights) -> None:
        """Takes in the placement of the variables."""

    def agreed(self, agreed: Agreed) -> None:
        """Takes in what the tasks have agreed on."""

    def build(self, agreed: Agreed) -> BuiltStep:
        """Returns the graph of the replica."""

    def parts(self, setting: Setting) -> Parts:
        """Returns the duties; called in the graph of the step."""


class Worker:
    """A worker that is not the chief.

    Args:
      prepared: the task.
      built: its graph if that is built already: by the plan that follows from the job alone.
    """

    def __init__(self, prepared: Prepared, built: BuiltStep | None = None) -> None:
        self._prepared, self._built = prepared, built

    def planned(self, plan: Plan, weights: MeasuredWeights) -> None:
        """Does nothing: the chief shows it."""

    def agreed(self, agreed: Agreed) -> None:
        """Does nothing: the chief shows it."""

    def build(self, agreed: Agreed) -> BuiltStep:
        """Returns the graph of the replica."""
        return self._built if self._built is not None else build_step(self._prepared, agreed.plan, agreed.topology)

    def parts(self, setting: Setting) -> Parts:
        """Returns the duties; called in the graph of the step."""
        feed = _feed_of(setting, event_gates(setting.step, setting.prepared.job))
        user_hooks, rounds = UserHooks(setting, ends_all=False), _rounds_of(setting)
        model, saves, ending = AwaitedModel(setting), AwaitedSaves(setting), Ending()
        last = [LastValues(setting, listener) for listener in setting.prepared.model.epochs()]
        duties = [
            Confirming(setting),
            model,
            saves,
            *last,
            user_hooks,
            feed,
            *_scaled_loss(setting),
            ending,
            rounds,
            *_held_residuals(setting),
            Profiling(setting, rounds),
            ScoringForChief(setting),
        ]
        return Parts(model, feed, rounds, saves, ending, user_hooks, duties)


class Chief(Worker):
    """The chief.

    Args:
      prepared: the task.
      joined: its connections.
      console: where it writes.
      warm_start: what its variables take of another training's checkpoint, at most one.
      built: as for a worker.
    """

    def __init__(
        self,
        prepared: Prepared,
        joined: JoinedAsChief,
        console: Console,
        warm_start: Sequence[FoundWarmStart] = (),
        built: BuiltStep | None = None,
    ) -> None:
        super().__init__(prepared, built)
        self._joined, self._console, self._warm_start = joined, console, warm_start

    def planned(self, plan: Plan, weights: MeasuredWeights) -> None:
        """Shows the plan, then the address of the status page, which serves from now on."""
        job = self._prepared.job
        self._console.line(plan.table())
        if job.is_mixed:
            self._console.line(instruction_set_line(job.compute_dtype))
        if weights.reason:
            log.info("%s", weights.reason, extra=event("adapted"))
        self._show(plan, self._prepared.topology)
        self._joined.observer.start(self._console)

    def agreed(self, agreed: Agreed) -> None:
        """Shows the racks on the status page."""
        self._show(agreed.plan, agreed.topology)

    def _show(self, plan: Plan, topology: Topology) -> None:
        board = self._joined.observer.board
        board.planned(plan)
        for display in board.displays.of(RackDisplay):
            display.found(topology, plan)

    def parts(self, setting: Setting) -> Parts:
        """Returns the duties; called in the graph of the step."""
        joined, job = self._joined, setting.prepared.job
        file = EventFile(joined.directory, {"job": text_of(job, setting.agreed.plan)})
        tracking = make_tracking(job, joined.observer.board, file.add)
        gates = event_gates(setting.step, job)
        user_hooks, feed, rounds = UserHooks(setting, ends_all=True), _feed_of(setting, gates), _rounds_of(setting)
        epochs = [Epochs(setting, listener, user_hooks) for listener in setting.prepared.model.epochs()]
        members = Members(setting, joined, rounds)
        saving = Saving(setting, joined, user_hooks, epochs, job.delta_every_secs)
        progressing, profiling = Progressing(setting, joined, saving, file, tracking), Profiling(setting, rounds)
        model = OwnModel(setting, joined, saving, progressing, first_values(setting, self._warm_start))
        fetches, scaled_loss, residuals = progressing.fetches, _scaled_loss(setting), _held_residuals(setting)
        last = [
            Uploading(setting, joined, tracking),  # before those who serve what was uploaded
            *([Deltas(setting)] if job.delta_every_secs else []),
            *([Exporting(setting, tracking)] if job.final_export_dir else []),
            *([Advising(setting, joined)] if setting.prepared.model.gives_advice else []),
        ]
        ending = Finishing(
            setting,
            joined,
            members,
            progressing,
            saving,
            feed,
            user_hooks,
            [*scaled_loss, *residuals, *epochs],
            last,
        )
        duties = [
            Confirming(setting),
            model,
            members,
            progressing,
            *epochs,
            saving,
            TrackingRun(setting, joined, tracking),
            *(EventCuts(setting, gate, progressing, saving) for gate in gates),
            Labels(),
            EarlyStop(setting, fetches["step"], user_hooks),
            ModelSummaries(setting, fetches["step"], file),
            Adapting(setting, fetches, profiling.profile),
            *last,
            user_hooks,
            feed,
            *scaled_loss,
            ending,
            rounds,
            *residuals,
            profiling,
        ]
        return Parts(model, feed, rounds, saving, ending, user_hooks, duties)


def _feed_of(setting: Setting, gates: Sequence[RowGate]) -> Feed:
    for sharding in setting.step.parts.of(Sharding):
        if sharding.assigned.reader.is_endless:
            return PartitionFeed(setting, next(iter(gates), OPEN))
        return SharedFeed(setting)
    return OwnFeed(setting)


def _rounds_of(setting: Setting) -> Rounds:
    return FlatRounds(setting) if setting.agreed.topology.is_flat else RackRounds(setting)


def _scaled_loss(setting: Setting) -> list[Duty]:
    return [ScaledLoss(part.present, str(setting.prepared.task)) for part in setting.step.parts.of(LossScaling)]


def _held_residuals(setting: Setting) -> list[Duty]:
    return [HeldResiduals(part.residuals) for part in setting.step.parts.of(PushCodec)]

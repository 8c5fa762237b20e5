"""The interfaces of duties, and what they are made of.

class Counting(Duty):
def opened(self, session, start): ...
def paused(self, session): ...

parts = role.parts(setting)              # in the graph of the step
for duty in parts.duties:
duty.connected(session)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.base.errors import DataError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.liveness import PeerStates
from ps_train.cluster.membership.records import ModelReady
from ps_train.cluster.membership.step_ledger import StepLedger
from ps_train.engine.step.train_step import TrainStep
from ps_train.engine.updates.shards.event_cut_table import EventCutTable
from ps_train.training.joining.agreement import Agreed
from ps_train.training.joining.join import Joined
from ps_train.training.joining.prepare import Prepared
from ps_train.training.loop.input import Input
from ps_train.training.loop.partition_client import PartitionClient
from ps_train.training.loop.session import ClusterSessions
from ps_train.training.loop.step_sources import StepSource

POLL_SECS = 0.1
"""Seconds between two looks of a thread that waits."""


class Now(Protocol):
    """The present session of the training, for duties that work in threads of their own."""

    @property
    def session(self) -> v1.Session | None:
        """The session, once it is open; None between two sessions."""

    @property
    def next_step(self) -> int:
        """The global step after the running call, if no other replica makes steps; 0 before the first session."""

    @property
    def step_secs(self) -> float:
        """The usual duration of a step in seconds; 0 before it is known."""

    def session_is_over(self) -> bool:
        """Returns True if the session is lost, or its generation has ended."""

    def should_stop(self) -> bool:
        """Returns True if the session is over, or this process ends."""


class Setting(NamedTuple):
    """What duties are made of.

    Attributes:
      prepared: the task.
      agreed: what it has agreed on with the others.
      joined: its connections to the job.
      console: where the chief writes.
      step: the graph of its replica, not finalized yet.
      input: its input, which outlives sessions.
      now: its present session.
    """

    prepared: Prepared
    agreed: Agreed
    joined: Joined
    console: Console
    step: TrainStep
    input: Input
    now: Now


class ModelState(NamedTuple):
    """The model on the ps when a session begins.

    Attributes:
      ready: the record of its generation.
      step: the global step.
      was_there: True if some ps had a part of the model before.
      is_newer: True if some ps may have made updates since the checkpoint of this step.
    """

    ready: ModelReady
    step: int
    was_there: bool = False
    is_newer: bool = False


class Start(NamedTuple):
    """Where a session begins.

    Attributes:
      state: the model on the ps.
      sessions: opens sessions of other graphs on the same cluster.
      ledger: the steps that replicas share.
    """

    state: ModelState
    sessions: ClusterSessions
    ledger: StepLedger

    @property
    def step(self) -> int:
        """The global step."""
        return self.state.step


class End(NamedTuple):
    """How the training ended for this task.

    Attributes:
      state: "done", "stopped" or "failed"; "" if the task was refused, and another process may be in its place.
      cause: what failed; None if nothing did.
    """

    state: str
    cause: str | None = None


class LastStep(NamedTuple):
    """The end of the steps, after the last checkpoint.

    Attributes:
      step: the global step.
      path: the checkpoint's path, which can be read here.
      shown: the same as users know it.
    """

    step: int
    path: str
    shown: str


class Bursts(NamedTuple):
    """What a duty asks of the loop of steps.

    Attributes:
      ends: a burst ends at each multiple of this number of steps; 0 if it may end anywhere.
      alone: True if every step must be made with the hooks.
      often: True if every burst must end with the hooks.
    """

    ends: int = 0
    alone: bool = False
    often: bool = False


class Duty:
    """One feature of the training of a task.

    It is made in the graph of the step, which is still open: `__init__` adds the operations that it needs.

    Attributes:
      hooks: its session hooks, of every session.
      bursts: what it asks of the loop.
    """

    hooks: Sequence[v1.train.SessionRunHook] = ()
    bursts = Bursts()

    # The training thread, in the order of the list:

    def connected(self, session: v1.Session) -> None:
        """A session is there and every ps answers; the model need not be there yet."""

    def opened(self, session: v1.Session, start: Start) -> None:
        """The model is ready; no step is made in this session yet."""

    def wrappers(self) -> Sequence[Callable[[Any], Any]]:
        """Returns wrappers of the functions that make the calls of this session, the innermost first."""
        return ()

    def paused(self, session: v1.Session) -> None:
        """The loop of this task has ended; it may begin again."""

    def waiting(self, session: v1.Session) -> None:
        """This task has no steps now; called again and again until it has some, or the job is over."""

    def lost(self) -> None:
        """The session is lost; its calls have not been cancelled yet."""

    def parked(self) -> None:
        """No further step is made: the main thread ends the process."""

    # The training thread of the chief, when all steps are made; again if a ps is lost meanwhile:

    def settle(self, session: v1.Session) -> bool:
        """Puts what it holds into the model before the last checkpoint; returns True if that changed the model."""
        return False

    def facts(self, session: v1.Session) -> Mapping[str, float]:
        """Returns its values for the result of the job, by name."""
        return {}

    def finished(self, last: LastStep) -> None:
        """The result is written; other tasks have not been told yet that the job is done."""

    # The main thread, whatever the training thread does:

    def left(self) -> None:
        """This task leaves the job, which goes on without it; no further step is made."""

    def done(self, session: v1.Session | None) -> None:
        """Another task has ended the job well."""

    def stopped(self, within_secs: float) -> None:
        """The job ends before its last step; raises SaveError if what it must keep cannot be saved in time."""

    def ended(self, end: End) -> None:
        """The training is over; called once."""


class Model(Duty):
    """Where the model on the ps comes from."""

    def prepare(self, session: v1.Session) -> ModelState:
        """Returns when the model is ready on all ps."""
        raise NotImplementedError


class Feed(Duty):
    """What a task trains on.

    Attributes:
      waits_for_rows: True if further rows may come while no task trains.
      takes_ahead: True if steps are taken from the ledger ahead of time.
    """

    waits_for_rows = False
    takes_ahead = True

    def source(self, steps: StepSource) -> StepSource:
        """Returns what limits the loop: the `steps`, or what this task holds of the data beside them."""
        return steps

    def begin(self, session: v1.Session, steps: StepSource) -> None:
        """The loop begins."""

    def interrupted(self) -> None:
        """The input was cancelled when the session was lost."""

    def loop_ended(self, has_input_ended: bool) -> bool:
        """Returns True if this task has no more input, now that its loop has ended."""
        raise NotImplementedError

    def has_more(self, are_steps_left: Callable[[], bool]) -> bool:
        """Returns True if there is work for this task again."""
        raise NotImplementedError

    def is_exhausted(self, others: PeerStates) -> bool:
        """Returns True if no task will train again; called when none trains.  Frees what dead workers hold."""
        raise NotImplementedError

    def nothing(self) -> DataError:
        """Returns the error for data without examples."""
        raise NotImplementedError

    def event_cuts(self) -> Sequence[tuple[EventCutTable, PartitionClient]]:
        """Returns the table of the job's cuts by event time and the client of the source, in a list of at most one."""
        return ()


class Rounds(Duty):
    """Whom the steps of a task wait for."""

    def meet(self) -> Sequence[Address]:
        """Returns the servers beside the ps that the next session needs; may wait for them."""
        return ()

    def is_over(self) -> bool:
        """Returns True if such a server is lost, and the session with it; any thread."""
        return False

    def leave(self) -> bool:
        """Makes no round wait for this task until it makes a step again; returns False where that was not possible."""
        raise NotImplementedError

    def remove_absent(self, index: int, present: Sequence[str]) -> bool:
        """Makes no round wait for an absent replica; returns False where that was not possible.

        Args:
          index: of the replica.
          present: names of the tasks that take part.
        """
        raise NotImplementedError

    def awaited(self) -> tuple[int, list[int]] | None:
        """Returns the global step and the indices of the replicas that others wait for; None if they are not known."""
        raise NotImplementedError

    def pause(self, session: v1.Session) -> None:
        """Makes other workers' steps not wait for this task, which waits for a checkpoint."""

    def targets(self) -> Mapping[str, str]:
        """Returns the TensorFlow targets of the servers of `meet`, by the name of their place in a trace."""
        return {}


class Saves(Duty):
    """Who takes the checkpoints for which steps wait."""

    def while_paused(self, session: v1.Session, is_first: bool) -> None:
        """Called again and again while steps wait for a checkpoint, with True at the first time."""
        raise NotImplementedError


class Ending(Duty):
    """How the job ends."""

    def is_over(self, session: v1.Session) -> bool:
        """Returns True if the job is over; called after all `waiting`."""
        return False

    def finish(self, session: v1.Session) -> None:
        """Ends the job; done again if a ps is lost meanwhile."""

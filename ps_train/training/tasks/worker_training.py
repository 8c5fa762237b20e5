"""The training thread of a worker: it builds the graph, opens the session, and runs the loop until the job is done.

When a ps is lost, the session is abandoned.  Training continues in a new session as soon as all ps answer and the chief
has restored the model.  The heartbeat limits the time that this may take.

`chief_training.py` has the methods that differ in the chief.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base import gc_control
from ps_train.base.console import Console
from ps_train.base.errors import LostTaskError, RefusedError, UnreachableError
from ps_train.base.polling import poll_until
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.membership.liveness import TaskLiveness
from ps_train.cluster.membership.records import ModelReady, TaskState, task_statuses
from ps_train.cluster.membership.step_ledger import StepLedger
from ps_train.cluster.sessions.abandonable import StuckCallDetector, run_abandonable
from ps_train.cluster.sessions.calls import (
    PS_LOST_ERRORS,
    LostConnectionError,
    LostInputError,
    SessionGroup,
    preparation_secs_of,
)
from ps_train.cluster.sessions.server import own_config, session_config, start_server
from ps_train.data.pipeline import derived_seed
from ps_train.engine.step.model_hooks import NO_HOOKS, ModelHooks, shard_hooks
from ps_train.engine.step.parts.loss_scaling import LossScaling
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.engine.step.parts.rack import Rack
from ps_train.observe.profile.profile import Profile
from ps_train.observe.progress.progress import LossScaleHook
from ps_train.training.loop.burst_size import BurstScheduler
from ps_train.training.loop.call_wrappers import call_wrappers
from ps_train.training.loop.input import Input
from ps_train.training.loop.loop import LoopExit, TrainingLoop
from ps_train.training.loop.partition_client import PartitionClient, shard_client_of
from ps_train.training.loop.rack import RackMember, leave_rack, was_removed
from ps_train.training.loop.session import ClusterSessions, agree_with_chief, await_ready, monitored_training_session
from ps_train.training.loop.shard_client import OwnershipClient
from ps_train.training.loop.step_sources import StepSource, step_source
from ps_train.training.tasks.final_evaluation import EvalWorker
from ps_train.training.tasks.join import Joined
from ps_train.training.tasks.measured_weights import agree_on_weights
from ps_train.training.tasks.prepare import Prepared
from ps_train.training.tasks.rack_agreement import agree_on_topology, rack_member, with_topology

log = logging.getLogger(__name__)

POLL_SECS = 0.1
_MAX_SESSIONS_WITHOUT_STEP = 5
"""The maximum number of consecutive sessions that are lost before a step was made."""
_PAUSE_SECS = 30.0
"""Seconds for which steps wait for a checkpoint of a chief that lives but takes none."""
_CANCEL_SECS = 1.0
"""Seconds for calls to end after their session was closed.  A call that still connects to a ps does not end."""


@dataclasses.dataclass(frozen=True)
class Generation:
    """The generation in which a task trains: an unbroken life of the model's state on the ps.

    Attributes:
      generation: its random name; "" if the task does not train in one.
      run_id: id of the run; "" before the first generation.
      since: time at which the task entered it, in seconds of a monotonic clock.
    """

    generation: str
    run_id: str
    since: float


class WorkerTraining:
    """One replica in training, in one session after the other.

    Args:
      prepared: the task.
      joined: its connections to the job.
      console: where the chief writes.
      server: the server of this process if it is also a ps; None: one is started.

    Attributes:
      shard_client: the client of dynamic sharding; None under static sharding, and before the graph is built.
      input_ended: True if this worker's input has ended.
      begun: True once the worker has begun to make steps.
      rack: the worker among those of its rack; None without racks.
      loop: the loop of the present session; None before it.
      profile: with the tracer of this task's calls.
      save_steps: number of steps at whose multiples a burst ends because a checkpoint is due; 0 if it may end anywhere.
      summary_steps: the same, because the model's summaries are due.
    """

    joined: Joined
    save_steps = summary_steps = 0

    def __init__(
        self, prepared: Prepared, joined: Joined, console: Console, server: v1.train.Server | None = None
    ) -> None:
        self.prepared, self.joined, self._server = prepared, joined, server
        self.session: v1.Session | None = None
        self.loop: TrainingLoop | None = None
        self._generation = Generation("", "", 0.0)
        self._sessions_without_step = 0
        self._paused_since = self._next_look = 0.0
        self._liveness = TaskLiveness(prepared.job.heartbeat_timeout_secs)
        self.rack: RackMember | None = None
        self._input_open = self.input_ended = self.begun = False
        self._parked = threading.Event()
        self.shard_client: OwnershipClient | None = None
        self._eval_worker = EvalWorker(prepared, joined)
        self.model_hooks = NO_HOOKS
        self.profile = profile = Profile(
            prepared.job.profile,
            str(prepared.task),
            [str(task) for task in prepared.cluster.replicas() if task != prepared.task],
            joined.directory,
            lambda: [address.target for address in joined.resolver.current().ps],
            console.line,
            lambda: {} if self.rack is None else self.rack.targets(),
        )
        joined.telemetry.step_time = lambda: profile.tracer.latest

    def run(self) -> None:
        """Trains until the job has no more steps for this worker; raises the error that ends the training."""
        prepared = self.prepared
        job, cluster, task, replica = prepared.job, prepared.cluster, prepared.task, prepared.replica
        self.agree()
        server = self._server or start_server(cluster.address(task), job, prepared.towers.cpus)
        if job.has_racks:
            self.prepared = prepared = with_topology(prepared, self.joined.stores)
            self.rack = rack_member(prepared, self.joined)
        self.step, secs = prepared.step()
        self._preparation_secs = preparation_secs_of(secs)
        self._input = Input(
            server.target, own_config(cluster, task, job), self.step.worker.batches, self.step.worker.calls_begun
        )
        self._calls = StuckCallDetector(self._input.begun_calls, job.recovery_timeout_secs, self._preparation_secs)
        self.shard_client = shard_client_of(self.step, replica, job, replica.declared, self._input.begin)
        if isinstance(self.shard_client, PartitionClient):
            self.joined.telemetry.stream = self.shard_client.measured
        with self.step.graph.as_default():
            report = None if self.shard_client is None else self.shard_client.step_done
            self.model_hooks = ModelHooks(prepared.model, self._end_training)
            hooks = [*self.model_hooks.hooks, *shard_hooks(self.step.worker.batches.progress, report)]
            hooks += [LossScaleHook(part.present, str(task)) for part in self.step.parts.of(LossScaling)]
            chief_hooks = self.chief_only_hooks()
            self.step.graph.finalize()
        while True:
            try:
                return self._attempt(server.target, hooks, chief_hooks)
            except (*PS_LOST_ERRORS, LostConnectionError, LostTaskError) as error:
                if isinstance(error, LostInputError):
                    self._input_open = False
                    log.warning("%s: the input was interrupted when a ps was lost; it starts again", task)
                self._wait_for_ps(cause_of(error))

    def agree(self) -> None:
        """Compares the job with the chief's before anything is built; raises RefusedError if they differ."""
        cluster, task = self.prepared.cluster, str(self.prepared.task)
        timeout_secs = self.prepared.job.startup_timeout_secs
        agree_with_chief(self.joined.stores[0], self.prepared.description, cluster, task, timeout_secs)
        log.info("%s joined the job of the chief, %s", task, cluster.chief)

    def chief_only_hooks(self) -> list[Any]:
        """Returns the session hooks that only the chief has; called before the graph of the step is finalized."""
        return []

    def _attempt(self, master: str, hooks: list[Any], chief_hooks: list[Any]) -> None:
        """Trains in one session, in a separate thread: a call to a ps that fell silent does not end."""
        # Read before the addresses: otherwise a ps that moves now would go unnoticed.
        known = self.joined.heartbeat.ps_liveness.incarnations()
        link = self.rack.join() if self.rack is not None else None
        if self.rack is not None and link is None:
            self._park_forever()
        address = link.address if link is not None else None
        config = session_config(self.joined.resolver.current(), self.prepared.task, self.prepared.job, address)
        self.sessions = ClusterSessions(master, config, SessionGroup(self._preparation_secs))

        def train() -> None:
            with self.step.graph.as_default():
                self._train_in_session(hooks, chief_hooks)

        def has_ended() -> bool:
            is_replaced = self.session_is_over() or self.joined.heartbeat.ps_liveness.incarnations() != known
            is_replaced |= self.rack is not None and self.rack.session_is_over()
            return is_replaced or self._calls.is_stuck(time.monotonic())

        run_abandonable(train, self.sessions.group, has_ended)

    def _train_in_session(self, hooks: list[Any], chief_hooks: list[Any]) -> None:
        """Trains in one session."""
        # Not a context manager: the end of the job closes no session, because closing may hang with a dead ps.
        session = monitored_training_session(self.sessions, self.prepared.is_chief, hooks, chief_hooks, self._open)
        self.session, first_step = self._opened
        self.loop = self._new_loop(first_step)
        self.loop.count = self.joined.telemetry.add
        self._calls.begin(self.loop)
        self.train(session)

    def _open(self, session: v1.Session) -> None:
        racks = self.step.parts.of(Rack)
        for rack in racks:
            if self.rack is not None:
                self.rack.begin(session, rack.ops)
        agree_on_weights(self.prepared, self.joined.stores[0])
        self._opened = session, self.prepare_session(session)
        for rack in racks:
            if self.rack is not None:
                agree_on_topology(self.prepared, self.joined.stores[0])
                self.rack.await_values(session, rack.ops)

    def prepare_session(self, session: v1.Session) -> int:
        """Waits until the chief has prepared the model, and opens the input; returns the global step."""
        session.run(self.step.ps.uninitialized)  # connects to every ps now, not in the first step
        gc_control.resume()
        chief, timeout_secs = str(self.prepared.cluster.chief), self.prepared.job.startup_timeout_secs
        self._enter_generation(await_ready(self.joined.stores, chief, timeout_secs))
        step = int(session.run(self.step.ps.global_step))
        self.step.local.prepare(session)
        self.open_input(step)
        log.info("%s training from global step %d", self.prepared.task, step)
        return step

    def train(self, session: Any) -> None:
        """Makes steps, and waits for more, until the main thread ends the process."""
        self.begun = True
        while True:
            self._wait_for_more(self._run_loop(session))

    def before_release(self) -> None:
        """Ends the chief's own work in a lost session; another worker has none."""

    def _wait_for_ps(self, cause: str) -> None:
        """Stops training after the session was lost; returns when all ps answer."""
        log.info("%s drops its session and opens another one: %s", self.prepared.task, cause)
        has_made_any = self.loop is not None and self.loop.made_any
        self._sessions_without_step = 0 if has_made_any else self._sessions_without_step + 1
        self.session = self.loop = None
        self._generation = dataclasses.replace(self._generation, generation="")
        self._release_session()
        if self._sessions_without_step >= _MAX_SESSIONS_WITHOUT_STEP:
            names = ", ".join(store.name for store in self.joined.stores)
            raise UnreachableError(
                f"{_MAX_SESSIONS_WITHOUT_STEP} consecutive sessions with {names} were lost before a step was made: "
                f"{cause}"
            )
        since, heartbeat = time.monotonic(), self.joined.heartbeat
        heartbeat.probe_ps()
        heartbeat.tell_state(TaskState.RECOVERING)
        # Told again, since ps 0 may be a new process; it may also be lost once more.
        while not (heartbeat.ps_liveness.all_answered_since(since) and heartbeat.tell_state(TaskState.RECOVERING)):
            if self.joined.events.stop.is_set():
                self._park_forever()
            time.sleep(POLL_SECS)

    def _release_session(self) -> None:
        """Ends the calls that still run in the lost session: none of them may reach a ps later."""
        self.before_release()
        if self.shard_client is not None:
            self.shard_client.drop()  # the input's threads may use the session's device
        group = self.sessions.group
        group.close()
        poll_until(group.is_idle, time.monotonic() + _CANCEL_SECS, POLL_SECS)

    def session_is_over(self) -> bool:
        """Returns True if the generation in which this task trains has ended."""
        if self._generation.generation == "":
            return False
        if self.rack is not None and self.rack.session_is_over():
            return True
        return self.joined.heartbeat.ps_liveness.generation_changed(self._generation.generation, self._generation.since)

    def _end_training(self, hook: str) -> None:
        """Ends the training of this task at the request of a hook."""
        log.info("%s: %s ends the training", self.prepared.task, hook)

    @property
    def has_ended(self) -> bool:
        """True if a hook has ended the training of this task."""
        return self.model_hooks.have_ended or self.joined.heartbeat.is_trained

    def _should_stop(self) -> bool:
        return self.joined.events.stop.is_set() or self.session_is_over()

    def _enter_generation(self, ready: ModelReady) -> None:
        """Makes this task train in the generation of `ready`; raises RefusedError if it belongs to another run."""
        if self._generation.run_id not in ("", ready.run_id):
            raise RefusedError(f"{self.prepared.task} belongs to a run that is over: the ps now serve another one.")
        self._generation = Generation(ready.generation, ready.run_id, time.monotonic())
        max_steps, replicas = self.prepared.job.max_steps, self.prepared.cluster.num_replicas
        owner = f"{self.prepared.task}/{self.joined.heartbeat.process_id}"
        self.ledger = StepLedger(self.joined.stores[0], owner, max_steps, replicas, ready.generation)
        self.ledger.forget()

    def open_input(self, step: int) -> None:
        """Opens the input once, for all sessions; its order depends on the step at which the job begins."""
        if self._input_open or self.shard_client:  # dynamic shards are opened whenever the loop begins
            return
        self._input_open = True
        self._input.begin(derived_seed(self.prepared.job.seed, "shuffle", self.prepared.replica.index, step))

    def _run_loop(self, session: Any) -> LoopExit:
        """Makes steps until no steps or no input is left, then leaves the rounds; returns which of the two it was."""
        self.joined.heartbeat.set_state(TaskState.TRAINING)
        assert self.loop is not None
        if self.shard_client is not None and self.session is not None:
            self.shard_client.begin(self.session, self._step_source())
        reason = self.loop.run(session)
        if reason == LoopExit.STOPPED and not self.joined.events.stop.is_set():
            raise LostConnectionError("a ps was restarted")
        if reason == LoopExit.STOPPED:
            self._park_forever()
        self._leave()
        for part in self.step.parts.of(PushCodec):
            if self.session is not None:
                part.residuals.send(self.session)
        self.profile.finish()
        if self.model_hooks.have_ended and not self.prepared.is_chief:
            reason = LoopExit.INPUT
        elif self.shard_client is not None:  # shards may become free later
            reason = LoopExit.INPUT if self.shard_client.is_over() else LoopExit.STEPS
        self.joined.heartbeat.set_state(TaskState.INPUT_ENDED if reason == LoopExit.INPUT else TaskState.WAITING)
        self.input_ended = reason == LoopExit.INPUT
        if reason == LoopExit.INPUT:
            log.info("%s: input ended", self.prepared.task)
        return reason

    def _leave(self) -> None:
        """Removes this living task from the rounds (the chief removes dead ones); retries if a ps is busy."""
        poll_until(
            lambda: self.remove_replica(self.prepared.replica.index) or self.session_is_over(), math.inf, POLL_SECS
        )

    def remove_replica(self, index: int, session: v1.Session | None = None) -> bool:
        """Removes a replica until it makes a step again, in `session` or the current one; True if it was possible."""
        session = session or self.session
        for part in self.step.parts.of(Rack):
            if session is not None and self.rack is not None:
                return leave_rack(session, part.ops, self.rack.rank)
        return self.remove_pusher(index, session)

    def remove_pusher(self, index: int, session: v1.Session | None = None) -> bool:
        """Removes a replica, or a rack, from the rounds on the ps; returns True if it was possible."""
        session = session or self.session
        return session is None or all(
            was_removed(session, one.op, {one.replica: index}, f"replica {index}") for one in self.step.ops.removals
        )

    def _step_source(self, ahead: bool = False) -> StepSource:
        shared = None if self.step.lockstep else self.ledger
        return step_source(self.prepared.job.max_steps, shared, lambda: self.has_ended, ahead, self.while_paused)

    def while_paused(self, is_first: bool) -> bool:
        """Waits for a checkpoint, for which all steps before it must be made; returns False if the loop must end."""
        session, index = self.session, self.prepared.replica.index
        if is_first and session is not None:
            pauses = self.step.ops.pauses  # or the workers that still make steps would wait for this one
            poll_until(
                lambda: (
                    all(was_removed(session, one.op, {one.replica: index}, f"replica {index}") for one in pauses)
                    or self._should_stop()
                ),
                math.inf,
                POLL_SECS,
            )
        if not self.prepared.is_chief:
            self._go_on_without_chief(is_first)
        return not self._should_stop()

    def _go_on_without_chief(self, is_first: bool) -> None:
        """Lets steps be made without the checkpoint for which they wait, if no chief is there to take it.

        A chief that has ended is not there, nor is one that has said nothing for heartbeat_timeout_secs.
        """
        now = time.monotonic()
        if is_first:
            self._paused_since, self._next_look = now, now + POLL_SECS
        if now < self._next_look:
            return
        self._next_look = now + POLL_SECS
        chief = str(self.prepared.cluster.chief)
        status = next((one for one in task_statuses(self.joined.stores[0].items()) if one.task == chief), None)
        is_there = status is not None and not process_exited(status) and self._liveness.is_alive(status)
        if not is_there or now - self._paused_since > _PAUSE_SECS:
            log.info("%s makes steps without waiting for checkpoints until the chief answers", self.prepared.task)
            self.ledger.allow(0)  # the chief's next session sets it again

    def _new_loop(self, first_step: int) -> TrainingLoop:
        job, name, hooks = self.prepared.job, str(self.prepared.task), self.model_hooks
        often = self.step.lockstep or self.shard_client is not None or bool(hooks.hooks)
        nodes, replicas = self.step.calls.nodes, 1 if self.step.lockstep else self.prepared.cluster.num_replicas
        bursts = BurstScheduler.of(job, self.save_steps, self.summary_steps, hooks.run_alone, often, nodes, replicas)
        source = self.shard_client or self._step_source(ahead=True)
        wrappers = call_wrappers(job, name, self.profile.tracer.begin(first_step))
        return TrainingLoop(name, self.step, source, self._should_stop, first_step, bursts, wrappers)

    def close(self) -> None:
        """Ends the profile, and what the input runs beside the training."""
        if self.shard_client is not None:
            self.shard_client.close()
        self.profile.close()
        if self.rack is not None and self.rack.is_relaying:  # else the end of the process would wait for its call
            self.sessions.group.close()

    def park(self, within_secs: float) -> bool:
        """Stops making steps; called by another thread.  Returns True if training stopped in time."""
        self.joined.events.stop.set()
        return self._parked.wait(within_secs)

    def leave_job(self, within_secs: float) -> None:
        """Stops making steps, and removes this worker from the rounds; returns early when the job has ended."""
        deadline = time.monotonic() + within_secs
        self.joined.events.stop.set()
        while self.begun and self.joined.events.terminal_error is None and time.monotonic() < deadline:
            if self._parked.wait(POLL_SECS):
                self.remove_replica(self.prepared.replica.index)
                return

    def _park_forever(self) -> None:
        """Blocks this thread; the main thread ends the process."""
        self._parked.set()
        self.profile.finish()
        threading.Event().wait()

    def _wait_for_more(self, reason: LoopExit) -> None:
        """Waits until steps are allocated again, and scores test data for the chief.

        If the job ends instead, the heartbeat receives the outcome and the main thread exits.
        """
        while not self._has_more_steps(reason):
            if self.joined.events.stop.is_set():
                self._park_forever()
            if self.session_is_over():
                raise LostConnectionError("a ps was restarted")
            if self.joined.heartbeat.is_ending:
                self.model_hooks.close(self.session)
            self._eval_worker.update(self.sessions)
            time.sleep(POLL_SECS)

    def _has_more_steps(self, reason: LoopExit) -> bool:
        """Returns True if there are steps for this worker after its loop has ended."""
        if self.shard_client is not None and not self.has_ended:
            return self.shard_client.has_work() and (self.step.lockstep or self._steps_left())
        return reason != LoopExit.INPUT and not self.step.lockstep and self._steps_left()

    def _steps_left(self) -> bool:
        return not self.has_ended and self.ledger.left() > 0

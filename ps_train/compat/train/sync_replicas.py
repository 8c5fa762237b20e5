"""The classic optimizer for synchronous training, made exact.

    descent = v1.train.GradientDescentOptimizer(0.1)
    optimizer = SyncReplicasOptimizer(descent, replicas_to_aggregate=2, total_num_replicas=2)
    train_op = optimizer.minimize(loss, global_step=global_step)
    hooks = [optimizer.make_session_run_hook(is_chief)]

Each update is the mean of one gradient of each worker.  TensorFlow's lets a fast worker contribute several, wastes the
first step of each worker, and waits for ever for a worker that has left.  Here a round goes on without it.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import control_flow_context, sync_settings
from ps_train.compat.train.server import current_task
from ps_train.compat.train.sync_graph import Accumulator, Messages, RoundTensors
from ps_train.compat.train.sync_leader import SyncFollower, SyncLeader

_OF_GRAPH: weakref.WeakKeyDictionary[Any, SyncReplicasOptimizer] = weakref.WeakKeyDictionary()


def optimizer_of(graph: tf.Graph) -> SyncReplicasOptimizer | None:
    """Returns the optimizer whose updates a graph has; None if there is none."""
    return _OF_GRAPH.get(graph)


class SyncReplicasOptimizer(v1.train.SyncReplicasOptimizer):
    """An optimizer as `tf.compat.v1.train.SyncReplicasOptimizer`, with the same arguments.

    Args:
      opt: the optimizer that applies the mean gradients.
      replicas_to_aggregate: the number of gradients of an update.
      total_num_replicas: the number of workers; None: as many as gradients.  The cluster of the process's server counts
        where there is one.
      variable_averages: an `ExponentialMovingAverage` to update after each update, or None.
      use_locking: as of every optimizer.
      name: of the operations.
      replica_id: not used; programs of TensorFlow before 1.0 name their task here.
    """

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
        replica_id: int | None = None,
    ) -> None:
        v1.train.Optimizer.__init__(self, use_locking, name)
        self.optimizer, self.replicas_to_aggregate = opt, replicas_to_aggregate
        self.total_num_replicas = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        self.averages, self.averaged = variable_averages, variables_to_average
        self._leader: SyncLeader | None = None
        self._follower: SyncFollower | None = None
        self.local_step_init_op: Any = None
        self.chief_init_op: Any = None
        self.ready_for_local_init_op: Any = None

    def compute_gradients(self, *arguments: Any, **options: Any) -> Any:
        """Returns (gradient, variable) pairs, as the wrapped optimizer does."""
        return self.optimizer.compute_gradients(*arguments, **options)

    def get_slot(self, *arguments: Any, **options: Any) -> Any:
        """Returns a slot of the wrapped optimizer."""
        return self.optimizer.get_slot(*arguments, **options)

    def get_slot_names(self, *arguments: Any, **options: Any) -> Any:
        """Returns the names of the wrapped optimizer's slots."""
        return self.optimizer.get_slot_names(*arguments, **options)

    def variables(self) -> Any:
        """Returns the variables of the wrapped optimizer."""
        return self.optimizer.variables()

    def apply_gradients(self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None) -> Any:
        """Returns the operation that pushes gradients and waits for the update.

        Args:
          grads_and_vars: (gradient, variable) pairs.
          global_step: the global step; the update adds one to it.
          name: not used, as in TensorFlow.

        Raises:
          ValueError: there is no pair, or no global step, or the call is inside of a condition.
        """
        pairs = list(grads_and_vars)
        if tf.inside_function() or control_flow_context(v1.get_default_graph()) is not None:
            raise ValueError(
                "apply_gradients of a SyncReplicasOptimizer is called inside of a condition, a loop or a tf.function, "
                "but every step takes part in a round: call it outside, with gradients that are zero in other steps"
            )
        if not pairs:
            raise ValueError("apply_gradients got no (gradient, variable) pair: give at least one")
        if global_step is None:
            raise ValueError("apply_gradients got no global_step, by which late gradients are known: give one")
        local_step = self._make_local_step(global_step)
        with tf.name_scope(self.get_name()):
            accumulators = {
                id(variable): _on_ps_of(variable, gradient) for gradient, variable in pairs if gradient is not None
            }
            pushes = [
                accumulators[id(variable)].push(gradient, _int64(local_step))
                for gradient, variable in pairs
                if gradient is not None
            ]
            tensors = self._make_round(pairs, accumulators, global_step)
            train_op = self._make_step(pushes, tensors, local_step, global_step.device)
        self.chief_init_op = tf.group(self.local_step_init_op, tensors.begin)
        _OF_GRAPH[v1.get_default_graph()] = self
        return train_op

    def _make_step(self, pushes: list[Any], tensors: RoundTensors, local_step: Any, device: Any) -> Any:
        """Returns the operation that sends a message after the pushes and waits for a token."""
        task = current_task()
        workers = task.cluster.workers() if task else ["worker:0"]
        own = workers.index(task.cluster.task) if task else 0
        with tf.device(device):
            messages = Messages.make(len(workers), tensors)
            with tf.control_dependencies(pushes):
                sent = messages.queue.enqueue(tf.stack([tf.constant(own, tf.int64), _int64(local_step)]))
            with tf.control_dependencies([sent]):
                token = messages.tokens[own].dequeue()
            release = messages.tokens[own].close(cancel_pending_enqueues=True)
        self._leader = SyncLeader(workers, own, self.replicas_to_aggregate, tensors, messages)
        self._follower = SyncFollower(workers, own, messages, release)
        return v1.assign(local_step, tf.cast(token, local_step.dtype.base_dtype))

    def get_chief_queue_runner(self) -> SyncLeader:
        """Returns the leader, which the chief starts with its session; raises ValueError before apply_gradients."""
        if self._leader is None:
            raise ValueError("get_chief_queue_runner is called before apply_gradients: call it after")
        return self._leader

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """Returns an operation that does nothing: no worker needs a token for its first step.

        Args:
          num_tokens: checked as by TensorFlow.

        Raises:
          ValueError: apply_gradients was not called, or there are too few tokens.
        """
        if self._leader is None:
            raise ValueError("get_init_tokens_op is called before apply_gradients: call it after")
        needed = self.replicas_to_aggregate - self.total_num_replicas
        if num_tokens != -1 and num_tokens < needed:
            raise ValueError(f"num_tokens={num_tokens} is too few for the first step: give at least {needed}, or -1")
        return tf.no_op(name="no_init_tokens")

    def get_clean_up_op(self) -> Any:
        """Returns an operation that does nothing: rounds leave nothing to clean up, as TensorFlow before 1.0 did."""
        return tf.no_op(name="no_clean_up")

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> v1.train.SessionRunHook:
        """Returns the hook that every worker's session needs.

        Args:
          is_chief: whether this worker makes the updates.
          num_tokens: not used; kept for compatibility.
        """
        return _SyncHook(self, is_chief)

    def start(self, session: Any, is_chief: bool, coord: Any = None) -> None:
        """Starts this worker's threads for a session with a model that is ready; hooks and Supervisor call it."""
        assert self._leader is not None and self._follower is not None
        if is_chief:
            self._leader.create_threads(session, coord)
        else:
            self._follower.watch(session)
        atexit.unregister(self.finish)
        atexit.register(self.finish)  # before the presence's own, which was registered earlier

    def finish(self) -> None:
        """Leaves the job; the chief goes on with updates until the others have left."""
        atexit.unregister(self.finish)
        for part in (self._leader, self._follower):
            if part is not None:
                part.finish()

    def _make_local_step(self, global_step: Any) -> Any:
        """Makes the variable with the step of the values that this worker reads, on the worker itself."""
        worker_device = tf.no_op(name="sync_anchor").device
        with tf.device(worker_device):
            local_step = v1.Variable(
                0,
                trainable=False,
                collections=[v1.GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self.local_step_init_op = v1.assign(local_step, global_step)
        self.ready_for_local_init_op = v1.report_uninitialized_variables(v1.global_variables())
        return local_step

    def _make_round(self, pairs: list[Any], accumulators: dict[int, Accumulator], global_step: Any) -> RoundTensors:
        means = []
        for gradient, variable in pairs:
            with tf.device(variable.device):
                means.append(None if gradient is None else accumulators[id(variable)].take())
        with tf.device(global_step.device), v1.name_scope(""):
            update = self.optimizer.apply_gradients(zip(means, (v for _, v in pairs), strict=True), global_step)
            if self.averages is not None:
                with tf.control_dependencies([update]):
                    update = self.averages.apply(self.averaged)
            with tf.control_dependencies([update]):
                updated_step = tf.identity(_read(global_step))
            present_step = tf.identity(_read(global_step))
        some = list(accumulators.values())
        begin = tf.group(*(accumulator.begin_at(_int64(global_step)) for accumulator in some))
        return RoundTensors(
            update=update,
            updated_step=_int64(updated_step),
            present_step=_int64(present_step),
            accumulated=[accumulator.accumulator.num_accumulated() for accumulator in some],
            discard=[tf.group(_parts(accumulator.take())) for accumulator in some],
            begin=begin,
        )


STOCK_METHODS = ("apply_gradients", "make_session_run_hook", "get_chief_queue_runner", "get_init_tokens_op")
"""The methods of TensorFlow's optimizer in which it differs from the exact one."""

_EXACT = "_ps_train_exact"


def exact_of(optimizer: Any) -> SyncReplicasOptimizer:
    """Returns the exact optimizer in the place of one of TensorFlow's, which calls its methods from now on."""
    if isinstance(optimizer, SyncReplicasOptimizer):
        return optimizer
    exact: SyncReplicasOptimizer | None = vars(optimizer).get(_EXACT)
    if exact is None:
        exact = SyncReplicasOptimizer(*sync_settings(optimizer), name=optimizer.get_name())
        vars(optimizer).update({_EXACT: exact, **{name: getattr(exact, name) for name in STOCK_METHODS[1:]}})
    return exact


class _SyncHook(v1.train.SessionRunHook):
    """The hook of `make_session_run_hook`."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool) -> None:
        self._optimizer, self._is_chief = optimizer, is_chief

    def begin(self) -> None:
        """Raises ValueError before apply_gradients."""
        self._optimizer.get_chief_queue_runner()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Sets the local step, and starts the threads."""
        optimizer = self._optimizer
        session.run(optimizer.chief_init_op if self._is_chief else optimizer.local_step_init_op)
        optimizer.start(session, self._is_chief, coord)

    def end(self, session: Any) -> None:
        """Leaves the job."""
        self._optimizer.finish()


def _on_ps_of(variable: Any, gradient: Any) -> Accumulator:
    with tf.device(variable.device):
        return Accumulator.of(gradient, variable)


def _parts(mean: Any) -> Any:
    return mean.values if isinstance(mean, tf.IndexedSlices) else mean


def _read(variable: Any) -> Any:
    return variable.read_value() if hasattr(variable, "read_value") else variable


def _int64(value: Any) -> Any:
    return tf.cast(value, tf.int64)

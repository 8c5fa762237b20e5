"""A whole cluster in one process: real TensorFlow servers on free ports, real gRPC between them, no child processes."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.cluster.sessions.calls import beside
from ps_train.cluster.sessions.rack_server import RACK_JOB
from ps_train.cluster.sessions.server import device_of, session_config
from ps_train.cluster.topology import RackPlace, Topology
from ps_train.config.job import Job, Task
from ps_train.config.validators import parse_weights
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import DataSource
from ps_train.engine.checkpoint.async_saver import AsyncSaver
from ps_train.engine.checkpoint.files import Checkpoints
from ps_train.engine.step.evaluation import EvalGraph, build_eval_graph, evaluate
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.rack import Rack
from ps_train.engine.step.slices import NO_SLICES, Slices
from ps_train.engine.step.towers import find_towers
from ps_train.engine.step.train_step import TrainStep, build_train_step
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import make_plan
from ps_train.engine.variables.trace import trace
from ps_train.engine.variables.variables import OF_PS
from ps_train.modeling.model import Model
from ps_train.saved.warm_start.initial_values import InitialValues
from ps_train.training.duties.recovery import make_savers
from tests.support.clusters.servers import POOL
from tests.support.machine.processes import eventually


class InProcessCluster:
    """Servers, graphs and sessions of a job; `steps[i]` and `sessions[i]` belong to worker i."""

    def __init__(
        self,
        model: Model,
        num_ps: int,
        num_workers: int,
        directory: pathlib.Path | None = None,
        partition_bytes: int = 1 << 10,
        declared: int | None = None,
        racks: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        """`racks` are those of the workers, in order; the relays of `start_relays` then make their rounds."""
        if declared is not None:  # the other workers join
            fields = {"max_workers": 16, "num_workers": declared, **fields}
        towers = find_towers(Job(**{name: fields[name] for name in ("towers", "batch_size") if name in fields}))
        apart = 0 if fields.get("ps_on_workers") else num_ps  # else the workers have the ps's device, too
        servers = POOL.take(apart) + POOL.take(num_workers, towers.cpus + (not apart))
        hosts = [server.host for server in servers]
        self.job = Job(
            ps_hosts=tuple(hosts[:apart]),
            worker_hosts=tuple(hosts[apart:]),
            **{"keep_checkpoints": 3, "shuffle_buffer": 0, "steps_per_run": "1", **fields},
        )
        cluster = self._cluster = Cluster.of(self.job)
        self.topology = None
        self.rack_servers: dict[str, Any] = {}
        if racks:
            named = dict(zip(map(str, cluster.replicas()), racks, strict=True))
            self.topology = Topology.of(named, cluster)
            self.rack_servers = dict(zip(self.topology.names, POOL.take(len(self.topology.names)), strict=True))
        self.model, self.targets = model, [server.target for server in servers[apart:]]
        tasks = [Task("worker", index) for index in range(num_workers)]
        source = DataSource(lambda: model.data("train", ""))
        traced = self.traced = trace(model, source, self.job.min_batch_size, self.job.seed)
        weights = parse_weights(self.job.ps_weights)
        self.plan = make_plan(traced.specs(), num_ps, partition_bytes, weights=weights)
        self.steps: list[TrainStep] = []
        self.replicas: list[Replica] = []
        self.sessions: list[v1.Session] = []
        self.checkpoints: Checkpoints | None = None
        self.snapshots: AsyncSaver | None = None
        for index, task in enumerate(tasks):
            replica = Replica.of(cluster, task)
            spec = GraphSpec(self.job, model, source, traced, self.plan, replica, device_of(task, cluster), towers)
            place = self._place(task)
            step = build_train_step(spec, [] if place is None else [Rack(spec, place)])
            if index == 0 and directory is not None:
                device = device_of(task, cluster)
                self.checkpoints, self.snapshots = make_savers(self.job, step, str(directory), device)
            if index == 0:
                with step.graph.as_default():
                    variables, device = step.ps.variables, device_of(task, cluster)
                    self._initial_values = InitialValues(traced, self.plan, variables, device, self.job.seed)
            self.steps.append(step)
            self.replicas.append(replica)
            self.sessions.append(POOL.session(self.targets[index], step.graph, self._config(task)))

    def _place(self, task: Task) -> RackPlace | None:
        return None if self.topology is None else self.topology.place(task)

    def _config(self, task: Task) -> v1.ConfigProto:
        place = self._place(task)
        racks = {} if place is None else {RACK_JOB: Address.parse(self.rack_servers[place.name].host, "tests")}
        return session_config(self._cluster, task, self.job, racks)

    def start_relay(self, worker: int) -> threading.Thread:
        """Makes a worker the aggregator of its rack; the thread relays until max_steps, or until a call fails."""
        (rack,) = self.steps[worker].parts.of(Rack)
        ops, session = rack.ops, self.sessions[worker]
        ops.prepare(session)

        def relay() -> None:
            with contextlib.suppress(tf.errors.OpError, RuntimeError):
                while session.run([ops.relay, ops.relayed_step])[1] < self.job.max_steps:
                    pass

        thread = threading.Thread(target=relay, daemon=True)
        thread.start()
        eventually(lambda: session.run(ops.is_published), 20, "the first values of the rack")
        return thread

    def start(self, restore: bool = False) -> int | None:
        """Initialises (or restores) the model and opens every worker's input."""
        self.sessions[0].run(self.steps[0].ps.initialize)
        if self.checkpoints is not None:
            self.checkpoints.find_writers(self.sessions[0])
        step = None
        if restore:
            assert self.checkpoints is not None
            step = self.checkpoints.restore(self.sessions[0])
        if step is None:
            self._initial_values.write(self.sessions[0])
        for session, replica in zip(self.sessions, self.steps, strict=True):
            replica.local.prepare(session)
            session.run(replica.worker.batches.initializer, replica.worker.batches.feeds(seed=1))
            session.run(replica.steps_per_call(0)["train"])
        return step

    @property
    def saving(self) -> v1.Session:
        """The session of the graph that saves and restores."""
        assert self.snapshots is not None
        return beside(self.sessions[0], self.snapshots.graph)

    def exist(self, handles: list[tf.Operation]) -> list[bool]:
        """Whether there are values on the ps under the handles of any graph."""
        with tf.Graph().as_default() as graph:
            there = [_exists(op) for op in handles]
        return beside(self.sessions[0], graph).run(there)

    def open_again(self, index: int) -> None:
        """A new session of the same worker, as after a ps was lost."""
        config = self._config(Task("worker", index))
        self.sessions[index] = POOL.session(self.targets[index], self.steps[index].graph, config)
        self.steps[index].local.prepare(self.sessions[index])
        self.sessions[index].run(self.steps[index].steps_per_call(0)["train"])

    def membership(self, worker: int) -> np.ndarray:
        """The membership of each worker in the rack of one of them."""
        return self._rack_state(worker)[0]

    def arrived(self, worker: int) -> np.ndarray:
        """The workers in the rack of one of them whose push is there."""
        return self._rack_state(worker)[1]

    def _rack_state(self, worker: int) -> np.ndarray:
        graph = self.steps[worker].graph
        return self.sessions[worker].run(graph.get_tensor_by_name("ps_train/rack/state/Read/ReadVariableOp:0"))

    def change_rack_server(self, rack: str) -> None:
        """Another server for a rack, as after the loss of its aggregator; its workers then need new sessions."""
        (self.rack_servers[rack],) = POOL.take(1)

    def train_of(self, workers: Sequence[int], steps: int) -> None:
        """Some workers make so many steps, all at the same time."""

        def work(index: int) -> None:
            for _ in range(steps):
                self.sessions[index].run(self.steps[index].steps_per_call(1))

        in_parallel([lambda index=index: work(index) for index in workers])

    def train(self, steps: int, run: int = 1) -> None:
        """Every worker makes so many steps, all at the same time, in runs of that length."""

        def work(index: int) -> None:
            fetches = self.steps[index].steps_per_call(run)
            for _ in range(steps // run):
                self.sessions[index].run(fetches)

        in_parallel([lambda index=index: work(index) for index in range(len(self.steps))])

    def rounds(self, lengths: Sequence[int], workers: Sequence[int] | None = None, joined: int = 0) -> None:
        """Workers make rounds of so many local steps, all at the same time.

        Args:
          lengths: the steps of each round.
          workers: who makes them; every worker without.
          joined: how many rounds of the same length, of several steps, are one call; 0 for calls of parts of a round.
        """

        def work(index: int) -> None:
            session, step = self.sessions[index], self.steps[index]
            left = [*lengths]
            while left:
                length, *others = left
                count = sum(1 for _ in itertools.takewhile(length.__eq__, left)) if length > 1 else 0
                if count := min(count, joined):
                    session.run(step.whole_rounds(length, count))
                    left = left[count:]
                    continue
                left = others
                if step.calls.begins_alone:
                    session.run(step.fronts(length))
                    session.run(step.calls.pull)
                if length > 1:
                    session.run(step.local_steps(length - 1))
                session.run(step.steps_per_call(1))

        in_parallel([lambda index=index: work(index) for index in workers or range(len(self.steps))])

    def dismiss(self, index: int, by: int = 0) -> None:
        """Nobody waits for that worker any more."""
        for removal in self.steps[by].ops.removals:
            self.sessions[by].run(removal.op, {removal.replica: index})

    def score(self) -> dict[str, float]:
        """As the chief scores the values on the ps."""
        return evaluate(*self.scoring())

    def scoring(
        self, share: DataShard = WHOLE, worker: int = 0, slices: Slices = NO_SLICES
    ) -> tuple[v1.Session, EvalGraph]:
        """What a worker scores a share of the test data with."""
        task = Task("worker", worker)
        source = DataSource(lambda: self.model.data("test", ""))
        scoring = build_eval_graph(
            self.model, source, self.traced, self.plan, device_of(task, self._cluster), share, slices
        )
        assert scoring is not None
        config = session_config(self._cluster, task, self.job)
        return POOL.session(self.targets[worker], scoring.graph, config), scoring

    def values(self) -> dict[str, np.ndarray]:
        """Whole values of everything that is stored for any number of ps, slices put together, by checkpoint key."""
        parts: dict[str, dict[int, np.ndarray]] = {}
        stored = [s for s in self.steps[0].ps.entries if not s.follower and not s.key.startswith(OF_PS)]
        found = self.sessions[0].run([s.variable for s in stored])
        for one, value in zip(stored, found, strict=True):
            begin = int(one.slice_spec.split()[-1].split(",")[0]) if one.slice_spec else 0
            parts.setdefault(one.key, {})[begin] = value
        return {
            key: np.concatenate([some[begin] for begin in sorted(some)]) if len(some) > 1 else some[0]
            for key, some in parts.items()
        }

    def read(self, name: str) -> np.ndarray:
        """The value of any variable."""
        (variable,) = [v for v in self.steps[0].graph.get_collection("variables") if v.op.name == name]
        return self.sessions[0].run(variable)

    def global_step(self) -> int:
        return int(self.sessions[0].run(self.steps[0].ps.global_step))


def _exists(op: tf.Operation) -> tf.Tensor:
    same = {name: op.get_attr(name) for name in ("dtype", "shape", "shared_name")}
    with tf.device(op.device):
        return tf.raw_ops.VarIsInitializedOp(resource=tf.raw_ops.VarHandleOp(**same))


def in_parallel(actions: list[Callable[[], None]], within_secs: float = 120.0) -> None:
    """Runs them in threads; raises the first error, fails when one does not end."""
    errors: list[BaseException] = []

    def guarded(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[action], daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(within_secs)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a worker did not end"


def train_plainly(
    model: Model,
    optimizer: Any,
    initial: dict[str, np.ndarray],
    batches: list[tuple[Any, Any]],
    with_step: bool = False,
) -> dict[str, np.ndarray]:
    """The same model in one plain session without any of our code: the reference for numbers.

    Args:
      optimizer: makes the optimizer, or a dict of them by the beginning of variables' names.
      batches: features and labels, in any structure of arrays or eager tensors.
      with_step: whether there is a global step, which every update counts.
    """
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step() if with_step else None
        holders = [_placeholder(part) for part in _parts(batches[0])]
        x, y = tf.nest.pack_sequence_as(batches[0], holders, expand_composites=True)
        loss = model.loss(model.forward(x, training=True), y)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train = _minimized(loss, optimizer(), step)
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            session.run(v1.local_variables_initializer())
            given = [one for one in v1.global_variables() if one.op.name in initial]
            values = [v1.placeholder(one.dtype, one.shape) for one in given]
            assign = [one.assign(value) for one, value in zip(given, values, strict=True)]
            session.run(assign, {value: initial[one.op.name] for one, value in zip(given, values, strict=True)})
            for batch in batches:
                session.run(train, dict(zip(holders, _parts(batch), strict=True)))
            return session.run({v.op.name: v for v in v1.global_variables()})


def _parts(batch: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in tf.nest.flatten(batch, expand_composites=True)]


def _placeholder(part: np.ndarray) -> tf.Tensor:
    return v1.placeholder(tf.string if part.dtype.kind in "OSU" else part.dtype, [None, *part.shape[1:]])


def _minimized(loss: tf.Tensor, optimizer: Any, step: Any) -> tf.Operation:
    """Each variable is that of the optimizer with the longest beginning of its name; all compute with the same step."""
    if not isinstance(optimizer, dict):
        return optimizer.minimize(loss, global_step=step)
    groups: dict[str, list[Any]] = {}
    for variable in v1.trainable_variables():
        groups.setdefault(max((key for key in optimizer if variable.op.name.startswith(key)), key=len), []).append(
            variable
        )
    pairs = {key: optimizer[key].compute_gradients(loss, some) for key, some in groups.items()}
    with tf.control_dependencies([gradient for some in pairs.values() for gradient, _ in some if gradient is not None]):
        updates = [optimizer[key].apply_gradients(some) for key, some in pairs.items()]
    if step is None:
        return tf.group(*updates)
    with tf.control_dependencies(updates):
        return step.assign_add(1).op


def batches_of(model: Model, size: int, count: int) -> list[tuple[Any, Any]]:
    """The first batches of the training data in order, going round."""
    data = model.data("train", "")
    if isinstance(data, tf.data.Dataset):
        return list(data.repeat().batch(size).take(count))
    rows = [np.arange(number * size, (number + 1) * size) % len(data) for number in range(count)]
    return [tf.nest.map_structure(lambda part, some=some: part[some], (data.features, data.labels)) for some in rows]

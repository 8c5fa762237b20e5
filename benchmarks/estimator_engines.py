"""The same Estimator program on this engine and on TensorFlow's own, side by side.

    python -m benchmarks.estimator_engines --workload=clicks --rounds=3 --secs=10

The peer is tensorflow-estimator 2.15.0, which must be importable or in the directory that STOCK_ESTIMATOR_PATH names.
Each round runs both engines, one after the other.  A chief and a worker train with one ps.  The clock starts when both
have made many steps, so neither start-up nor the peer's delayed start counts.  What is counted are steps on the ps.

`alone` is what the processors allow: two processes make the same steps with variables of their own.  No engine on the
same machine can be faster, since it has to move values as well.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.errors import ContenderError
from benchmarks.processes import Processes, Program
from tests.support.machine.ports import free_ports

BATCH, ROWS = 256, 300_000
ENGINES = ("ps_train", "stock")
ALONE = "alone"
LAYERS = {"clicks": [64], "clicks_bags": [64], "mlp": [256, 256, 128], "mlp_small": [128, 64]}
_WARM_STEPS, _WAIT_SECS = 400, 120


def input_of(workload: str) -> Any:
    """Returns made-up click records in batches, or images of noise for the networks."""
    import numpy as np
    import tensorflow as tf

    draw = np.random.default_rng(0)
    if workload.startswith("clicks"):
        ids = 13 if workload == "clicks_bags" else 1  # of a column in an example
        features = {name: draw.zipf(1.2, (20_000, ids)) % ROWS for name in ("first", "second")}
    else:
        features = {"pixels": draw.normal(size=(20_000, 64)).astype(np.float32)}
    labels = draw.integers(0, 2, (20_000, 1)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(BATCH).prefetch(4)


def model_fn_of(spec: Any, workload: str) -> Callable[..., Any]:
    """Returns the model_fn: clicks have two embedding columns of 300,000 rows, the others have dense layers alone."""
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    def dense(inputs: Any, units: int, name: str) -> Any:
        with v1.variable_scope(name):
            kernel = v1.get_variable("kernel", [inputs.shape[1], units])
            return inputs @ kernel + v1.get_variable("bias", [units], initializer=v1.zeros_initializer())

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        if workload.startswith("clicks"):
            column = tf.feature_column
            columns = [
                column.embedding_column(column.categorical_column_with_identity(name, ROWS), 16)
                for name in ("first", "second")
            ]
            net = v1.feature_column.input_layer(features, columns)
        else:
            net = features["pixels"]
        for number, units in enumerate(LAYERS[workload]):
            net = tf.nn.relu(dense(net, units, f"hidden{number}"))
        logits = dense(net, 1, "logits")
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        step = v1.train.get_global_step()
        return spec(mode, loss=loss, train_op=v1.train.AdagradOptimizer(0.05).minimize(loss, global_step=step))

    return model_fn


def task(engine: str, workload: str, model_dir: str) -> None:
    """Trains as the task of TF_CONFIG until it is ended."""
    api: Any
    if engine == "ps_train":
        api = importlib.import_module("ps_train.estimator")
        config = api.RunConfig(model_dir, save_checkpoints_secs=3600, save_summary_steps=0, engine="ps_train")
    else:
        stock = importlib.import_module("tests.support.compat.stock_estimator")
        sys.path.insert(0, stock.where())
        api = stock.import_stock()
        config = api.RunConfig(
            model_dir, save_checkpoints_secs=3600, save_summary_steps=0, experimental_max_worker_delay_secs=0
        )
    input_fn = functools.partial(input_of, workload)
    trained = api.Estimator(model_fn_of(api.EstimatorSpec, workload), config=config)
    endless = api.TrainSpec(input_fn, max_steps=10**8)
    api.train_and_evaluate(trained, endless, api.EvalSpec(input_fn, start_delay_secs=10**6, throttle_secs=10**6))


def alone(workload: str, secs: float) -> None:
    """Trains in a session of this process, and prints the steps per second."""
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    with tf.Graph().as_default():
        # As in a cluster, variables have another device than the model: TensorFlow then looks up rows alone.
        setter = v1.train.replica_device_setter(ps_tasks=1, ps_device="/cpu:1", worker_device="/cpu:0")
        with v1.device(setter), v1.variable_scope("", use_resource=True):
            v1.train.create_global_step()
            features, labels = v1.data.make_one_shot_iterator(input_of(workload)).get_next()
            model_fn = model_fn_of(lambda mode, loss, train_op: train_op, workload)
            train_op = model_fn(features, labels, "train")
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
            session.run(v1.global_variables_initializer())
            step = session.make_callable(train_op)
            end = time.monotonic() + secs / 2
            while time.monotonic() < end:
                step()
            begin, count = time.monotonic(), 0
            while time.monotonic() < begin + secs:
                step()
                count += 1
            print("rate", count / (time.monotonic() - begin), flush=True)


def steps_alone(workload: str, secs: float) -> float:
    """Returns the steps per second of two processes that share nothing but the processors."""
    command = [sys.executable, "-m", "benchmarks.estimator_engines", f"--workload={workload}", f"--secs={secs}"]
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        started = [processes.start(Program(f"alone {number}", [*command, "--task", ALONE])) for number in range(2)]
        lines = [
            one.wait_for(lambda line: re.match(r"rate [0-9.]+$", line.text) is not None, 3 * secs + _WAIT_SECS)
            for one in started
        ]
        return sum(float(line.text.split()[1]) for line in lines)


def steps_per_sec(engine: str, workload: str, secs: float) -> float:
    """Returns the steps on the ps for each second, of a chief and a worker together."""
    hosts = [f"127.0.0.1:{port}" for port in free_ports(3)]
    cluster = {"ps": hosts[:1], "chief": hosts[1:2], "worker": hosts[2:]}
    command = [sys.executable, "-m", "benchmarks.estimator_engines", f"--workload={workload}", "--task", engine]
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        for name in cluster:
            config = json.dumps({"cluster": cluster, "task": {"type": name, "index": 0}})
            processes.start(Program(f"{name} of {engine}", command, {"TF_CONFIG": config, "MODEL_DIR": directory}))
        return _measure(hosts[0], secs, processes)


def _measure(ps: str, secs: float, processes: Processes) -> float:
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    with tf.Graph().as_default() as graph:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name="global_step", container="")
        step = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.int64)

    def read() -> int:
        config = v1.ConfigProto(device_filters=["/job:ps", "/job:local"])
        with v1.Session(f"grpc://{ps}", graph=graph, config=config) as session:
            return int(session.run(step, options=v1.RunOptions(timeout_in_ms=5000)))

    def wait_for(number: int) -> None:
        deadline = time.monotonic() + _WAIT_SECS
        while time.monotonic() < deadline:
            processes.check()
            try:
                if read() >= number:
                    return
            except tf.errors.OpError:
                pass
            time.sleep(0.5)
        raise ContenderError(f"the tasks have not made {number} steps within {_WAIT_SECS}s")

    wait_for(1)
    time.sleep(10)  # the other worker
    wait_for(_WARM_STEPS)
    begin, first = time.monotonic(), read()
    time.sleep(secs)
    last, end = read(), time.monotonic()
    processes.check()
    return (last - first) / (end - begin)


def main() -> None:
    """Prints the steps per second of both engines in each round, the ratio of their medians, and the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(LAYERS), default="clicks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secs", type=float, default=10.0)
    parser.add_argument("--task", choices=[*ENGINES, ALONE], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task == ALONE:
        alone(given.workload, given.secs)
        return
    if given.task:
        task(given.task, given.workload, os.environ["MODEL_DIR"])
        return
    found: dict[str, list[float]] = {engine: [] for engine in (*ENGINES, ALONE)}
    for number in range(given.rounds):
        for engine in found:
            measure = steps_alone if engine == ALONE else functools.partial(steps_per_sec, engine)
            try:
                found[engine].append(measure(given.workload, given.secs))
            except ContenderError as error:
                sys.exit(f"{engine}: {error}")
            print(f"round {number + 1}  {engine:8}  {found[engine][-1]:.0f} steps/s", flush=True)
    median = {engine: statistics.median(rates) for engine, rates in found.items()}
    print(f"{given.workload}: {median['ps_train'] / median['stock']:.2f} times the steps per second of stock")
    ours, stock = (median[engine] / median[ALONE] for engine in ENGINES)
    print(f"of what the processors allow: ps_train {ours:.2f}, stock {stock:.2f}")


if __name__ == "__main__":
    main()

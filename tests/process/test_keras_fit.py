"""`ps_train.keras.fit` in scripts: as processes of its own, as tasks of a cluster, after kills and in an own directory.

Each script trains a twin of its model by `model.fit` and prints how far they are apart.
"""

from __future__ import annotations

import json
import pathlib
import signal
import textwrap
from typing import Any

import pytest

from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes, eventually

pytestmark = pytest.mark.timeout(400)

BEGIN = """
import json, os, pathlib, sys, time
import keras
import numpy as np
import ps_train.keras
from tests.support.models.keras_models import KERAS_FITS, values_of

def show(**found):
    print("RESULT " + json.dumps(found), flush=True)

def apart(one, other):
    one, other = values_of(one.model), values_of(other.model)
    assert one.keys() == other.keys()
    return float(max(np.abs(one[key] - other[key]).max(initial=0.0) for key in one))

def lists_apart(one, other):
    assert one.history.keys() == other.history.keys(), (one.history, other.history)
    return float(max(np.abs(np.array(one.history[key]) - other.history[key]).max() for key in one.history))

class Halves(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.set_weights([0.5 * one for one in self.model.get_weights()])

def embedding_of(optimizer):
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Embedding(20_000, 16), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((2,), dtype="int64"), *layers])
    model.compile(optimizer=optimizer, loss="mse")
    return model

def data_of_ids():
    chance = np.random.default_rng(1)
    return {"x": chance.integers(0, 20_000, (160, 2)), "y": chance.normal(size=(160, 1)), "shuffle": False,
            "batch_size": 32, "verbose": 0}

def data_of(fit):
    return {"x": fit.x, "y": fit.y, "sample_weight": fit.sample_weight, "class_weight": fit.class_weight,
            "batch_size": fit.batch_size, "shuffle": False, "verbose": 0}
"""


def script(processes: Processes, text: str) -> pathlib.Path:
    path = processes.directory / "users_script.py"
    path.write_text(BEGIN + textwrap.dedent(text))
    return path


def results(run: Process) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("RESULT ")) for line in run.lines if line.startswith("RESULT ")]


def done(run: Process) -> list[dict[str, Any]]:
    """The results of a script that has ended well, and has left no process."""
    assert run.wait(300) == 0, run.output
    assert run.descendants() == []
    return results(run)


def test_two_workers_train_as_keras_does_and_a_second_fit_goes_on(processes: Processes) -> None:
    path = script(
        processes,
        """
        here, twin = KERAS_FITS["dense"](), KERAS_FITS["dense"]()
        job = {"num_ps": 1, "num_workers": 2, "update": "sync"}
        for epochs in (2, 1):
            given = {"epochs": epochs, "validation_data": (here.x[:20], here.y[:20])}
            found = ps_train.keras.fit(here.model, **data_of(here), **given, **job)
            expected = twin.model.fit(**data_of(twin), **given)
            show(apart=apart(here, twin), history=lists_apart(found, expected))
        """,
    )
    found = done(processes.script(path))
    assert len(found) == 2
    assert all(one["apart"] < 1e-6 and one["history"] < 1e-5 for one in found), found


def test_callbacks_do_what_they_do_in_keras_between_rounds_of_local_steps(processes: Processes) -> None:
    """A round is longer than an epoch; the rows of the embedding stay on the worker, or travel in each step."""
    path = script(
        processes,
        """
        made = lambda: embedding_of(keras.optimizers.SGD(0.05))
        data = {**data_of_ids(), "epochs": 3}
        callbacks = lambda: [Halves(), keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.3)]
        job = {"num_ps": 1, "num_workers": 1, "update": "sync", "local_steps": 20}
        twin = made()
        expected = twin.fit(**data, callbacks=callbacks())
        for more in ({}, {"local_tables": False}):
            here = made()
            found = ps_train.keras.fit(here, **data, callbacks=callbacks(), **job, **more)
            pairs = zip(here.get_weights(), twin.get_weights(), strict=True)
            apart = float(max(np.abs(one - other).max() for one, other in pairs))
            show(apart=apart, history=lists_apart(found, expected))
        """,
    )
    local, by_step = done(processes.script(path))
    assert max(local["apart"], local["history"], by_step["apart"], by_step["history"]) < 1e-5


def test_slots_of_rows_that_are_sums_stay_on_the_ps_and_in_the_model(processes: Processes) -> None:
    path = script(
        processes,
        """
        here, twin = (embedding_of(keras.optimizers.Adagrad(0.1)) for _ in range(2))
        data = {**data_of_ids(), "epochs": 2}
        for _ in range(2):
            ps_train.keras.fit(here, **data, num_ps=2, num_workers=1, update="sync", local_steps=5)
            twin.fit(**data)
        pairs = [*zip(here.get_weights(), twin.get_weights(), strict=True)]
        pairs += zip(here.optimizer.variables, twin.optimizer.variables, strict=True)
        show(apart=float(max(np.abs(np.array(one) - np.array(other)).max() for one, other in pairs)))
        """,
    )
    (found,) = done(processes.script(path))
    assert found["apart"] < 1e-6


def test_slots_that_local_steps_begin_anew_are_those_of_a_new_optimizer(processes: Processes) -> None:
    """Keras corrects Adam by the number of all updates; the model of a second fit has the slots of the first."""
    path = script(
        processes,
        """
        def made():
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
            model.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
            return model

        chance = np.random.default_rng(1)
        data = {"x": chance.normal(size=(160, 4)), "y": chance.normal(size=(160, 1)), "shuffle": False}
        data |= {"batch_size": 32, "verbose": 0}
        job = {"num_ps": 1, "num_workers": 1, "update": "sync", "local_steps": 5}
        for state in ("keep", "fresh"):
            here, twin = made(), made()
            for epochs in (2, 1):
                ps_train.keras.fit(here, **data, epochs=epochs, inner_state=state, **job)
                for _ in range(epochs):
                    if state == "fresh":
                        twin.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
                    twin.fit(**data)
            pairs = [*zip(here.get_weights(), twin.get_weights(), strict=True)]
            if state == "keep":
                pairs += zip(here.optimizer.variables, twin.optimizer.variables, strict=True)
            show(apart=float(max(np.abs(np.array(one) - np.array(other)).max() for one, other in pairs)))
        """,
    )
    kept, fresh = done(processes.script(path))
    assert max(kept["apart"], fresh["apart"]) < 1e-5


@pytest.mark.long
def test_callbacks_of_a_model_with_two_outputs_do_what_they_do_in_keras(processes: Processes) -> None:
    path = script(
        processes,
        """
        def callbacks(name):
            return [
                Halves(), keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.7),
                keras.callbacks.EarlyStopping("loss", mode="max", patience=1, restore_best_weights=True),
                keras.callbacks.ModelCheckpoint(name + "-{epoch}.keras"), keras.callbacks.CSVLogger(name + ".csv"),
            ]

        here, twin = KERAS_FITS["two_outputs"](), KERAS_FITS["two_outputs"]()
        found = ps_train.keras.fit(
            here.model, **data_of(here), epochs=6, callbacks=callbacks("here"), num_ps=2, num_workers=1, update="sync"
        )
        expected = twin.model.fit(**data_of(twin), epochs=6, callbacks=callbacks("twin"))
        files = [sorted(path.name[4:] for path in pathlib.Path().glob(name + "*")) for name in ("here", "twin")]
        show(apart=apart(here, twin), history=lists_apart(found, expected), files=files)
        """,
    )
    (found,) = done(processes.script(path))
    assert found["apart"] < 1e-6 and found["history"] < 1e-5, found
    assert found["files"][0] == found["files"][1] and len(found["files"][0]) > 2


@pytest.mark.long
def test_ps_on_workers_train_as_keras_does(processes: Processes) -> None:
    path = script(
        processes,
        """
        here, twin = KERAS_FITS["weighted"](), KERAS_FITS["weighted"]()
        found = ps_train.keras.fit(
            here.model, **data_of(here), epochs=3, num_workers=2, ps_on_workers=True, update="sync"
        )
        expected = twin.model.fit(**data_of(twin), epochs=3)
        show(apart=apart(here, twin), history=lists_apart(found, expected))
        """,
    )
    (found,) = done(processes.script(path))
    assert found["apart"] < 1e-6 and found["history"] < 1e-5, found


@pytest.mark.long
def test_another_process_goes_on_with_a_directory_and_its_seeds(processes: Processes) -> None:
    path = script(
        processes,
        """
        epochs = int(sys.argv[1])
        here, twin = KERAS_FITS["normalized"](), KERAS_FITS["normalized"]()
        ps_train.keras.fit(
            here.model, **data_of(here), epochs=epochs, num_ps=1, num_workers=1, update="sync", model_dir="m"
        )
        twin.model.fit(**data_of(twin), epochs=epochs)
        show(apart=apart(here, twin), steps=int(here.model.optimizer.iterations))
        """,
    )
    for epochs in (2, 4):
        (found,) = done(processes.script(path, str(epochs)))
        assert found["steps"] == 6 * epochs and found["apart"] < 1e-6, found


TASKS = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]

OF_A_CLUSTER = """
class Told(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.05)
        print("EPOCH", epoch, flush=True)

here, twin = KERAS_FITS["dense"](), KERAS_FITS["dense"]()
task = json.loads(os.environ["TF_CONFIG"])["task"]
if (task["type"], task["index"]) != ("worker", 0):  # the chief's values count
    here.model.set_weights([one + 1.0 for one in here.model.get_weights()])
given = {**data_of(here), "epochs": int(sys.argv[1]), "verbose": 2}
ps_train.keras.fit(here.model, **given, callbacks=[Told()], update="sync", model_dir="m", startup_timeout_secs=100)
if task["type"] == "worker":
    twin.model.fit(**{**given, "verbose": 0})
    show(apart=apart(here, twin), steps=int(here.model.optimizer.iterations))
"""


class _Cluster:
    """The tasks of a cluster, as TF_CONFIG tells them."""

    def __init__(self, processes: Processes, epochs: int) -> None:
        self._processes, self._path = processes, script(processes, OF_A_CLUSTER)
        hosts = [f"127.0.0.1:{port}" for port in free_ports(len(TASKS))]
        self._cluster, self._epochs = {"ps": hosts[:2], "worker": hosts[2:]}, epochs
        self.runs = {task: self.start(task) for task in TASKS}

    def start(self, task: tuple[str, int]) -> Process:
        config = json.dumps({"cluster": self._cluster, "task": {"type": task[0], "index": task[1]}})
        return self._processes.script(self._path, str(self._epochs), env={"TF_CONFIG": config})


@pytest.mark.long
def test_tasks_of_a_cluster_call_fit_and_the_chief_alone_prints(processes: Processes) -> None:
    cluster = _Cluster(processes, epochs=3)
    found = [done(run) for run in cluster.runs.values()]
    assert found[:2] == [[], []]
    assert [len(one) for one in found[2:]] == [1, 1]
    assert all(one["apart"] < 1e-6 and one["steps"] == 18 for (one,) in found[2:]), found
    printing = [task for task, run in cluster.runs.items() if "EPOCH" in run.output or "Epoch 1/3" in run.output]
    assert printing == [("worker", 0)]


@pytest.mark.long
@pytest.mark.parametrize("task", [("ps", 1), ("worker", 1), ("worker", 0)], ids=["ps", "worker", "chief"])
def test_a_job_ends_exactly_after_the_kill_of_a_task(task: tuple[str, int], processes: Processes) -> None:
    cluster = _Cluster(processes, epochs=80)
    cluster.runs["worker", 0].wait_for("EPOCH 3", 120)
    cluster.runs[task].send(signal.SIGKILL)
    eventually(lambda: cluster.runs[task].process.poll() is not None, 20, "the end of the task")
    cluster.runs[task] = cluster.start(task)
    found = [done(run) for run in cluster.runs.values()]
    assert all(one["apart"] < 1e-5 and one["steps"] == 480 for (one,) in found[2:]), found

"""examples/wide_deep_estimator.py: in one process, and as ps, chief, worker and evaluator."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT, Processes

COMMAND = [sys.executable, str(ROOT / "examples" / "wide_deep_estimator.py"), "--max_steps=300"]


def exports(model_dir: pathlib.Path) -> list[pathlib.Path]:
    return sorted((model_dir / "export" / "best").iterdir())


def check_export(model_dir: pathlib.Path) -> None:
    served = tf.saved_model.load(str(exports(model_dir)[-1])).signatures["serving_default"]
    text = {"education": b"doctor", "occupation": b"occupation-1"}
    features = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])) for name, value in text.items()}
    for name, value in (("age", 50.0), ("hours", 60.0)):
        features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    example = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    assert served(tf.constant([example]))["probability"].numpy()[0, 0] > 0.8


@pytest.mark.long
def test_it_learns_and_exports_in_one_process(processes: Processes, tmp_path: pathlib.Path) -> None:
    run = processes.command([*COMMAND, f"--model_dir={tmp_path}/m"])
    assert run.wait(110) == 0, run.output
    found = re.search(r"auc (\d\.\d+) .* step 300", run.output)
    assert found is not None and float(found[1]) > 0.85
    check_export(tmp_path / "m")


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("ps", [2, long(1)])
def test_it_learns_and_exports_as_the_tasks_of_a_cluster(processes: Processes, tmp_path: pathlib.Path, ps: int) -> None:
    hosts = [f"127.0.0.1:{port}" for port in free_ports(ps + 2)]
    cluster = {"ps": hosts[:ps], "chief": hosts[ps : ps + 1], "worker": hosts[ps + 1 :]}
    tasks = [("chief", 0), ("worker", 0), ("evaluator", 0), *(("ps", index) for index in range(ps))]
    configs = [{"cluster": cluster, "task": {"type": name, "index": index}} for name, index in tasks]
    command = [*COMMAND, f"--model_dir={tmp_path}/m"]
    runs = [processes.command(command, env={"TF_CONFIG": json.dumps(config)}) for config in configs]
    assert [run.wait(350) for run in runs] == [0] * len(runs), "\n".join(run.output for run in runs)
    values = tf.train.load_checkpoint(str(tmp_path / "m"))
    assert values.get_tensor("global_step") == 300
    plan = runs[0].output
    for table in ("occupation_embedding/embedding_weights", "age_bucketized_X_education/weights"):
        assert table in plan, plan
    assert "trains with TensorFlow's own means" not in plan
    check_export(tmp_path / "m")

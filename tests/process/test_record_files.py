"""Whole jobs whose data are TFRecord files or text files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.records import write_lines, write_records
from tests.support.long import long
from tests.support.machine.processes import Processes

MODEL = "--model=tests.support.data.records:Records"


@pytest.mark.long
@pytest.mark.parametrize("sharding", ["dynamic", long("static")])
def test_every_record_is_used_once_and_the_export_takes_such_records(processes: Processes, sharding: str) -> None:
    data, directory = processes.directory / "data", processes.directory / "m"
    data.mkdir()
    for number in range(5):
        write_records(data / f"train-{number}", 40 * number, 40 * number + 40)
    write_records(data / "test-0", 0, 90)
    run = processes.run(
        MODEL,
        f"--data_dir={data}",
        f"--model_dir={directory}",
        f"--export_dir={processes.directory / 'e'}",
        f"--sharding={sharding}",
        "--epochs=1",
        "--num_workers=2",
        "--num_ps=2",
        "--batch_size=16",
    )
    assert run.wait(90) == 0, run.output
    assert tf.train.load_checkpoint(str(directory)).get_tensor("total") == sum(range(200))
    assert json.loads((directory / "result.json").read_text())["metrics"] == {"ids": 1.0}
    records = list(tf.data.TFRecordDataset(str(data / "test-0")).take(6).as_numpy_iterator())
    signature = tf.saved_model.load(str(processes.directory / "e" / "1")).signatures["examples"]
    np.testing.assert_array_equal(signature(examples=tf.constant(records))["outputs"], [0, 1, 2, 0, 1, 2])


@pytest.mark.long
def test_every_line_is_used_once(processes: Processes) -> None:
    data, directory = processes.directory / "data", processes.directory / "m"
    data.mkdir()
    for number in range(3):
        write_lines(data / f"train-{number}", 40 * number, 40 * number + 40)
    write_lines(data / "test-0", 0, 90)
    options = [f"--data_dir={data}", f"--model_dir={directory}", "--sharding=dynamic", "--epochs=1", "--num_workers=2"]
    run = processes.run("--model=tests.support.data.records:Lines", *options)
    assert run.wait(90) == 0, run.output
    assert tf.train.load_checkpoint(str(directory)).get_tensor("total") == sum(range(120))
    assert json.loads((directory / "result.json").read_text())["metrics"] == {"ids": 1.0}


@pytest.mark.long
def test_a_damaged_file_ends_the_job_with_one_line(processes: Processes) -> None:
    data = processes.directory / "data"
    data.mkdir()
    write_records(data / "train-0", 0, 100)
    write_records(data / "test-0", 0, 10)
    path = data / "train-0"
    path.write_bytes(path.read_bytes()[:-3])
    run = processes.run(MODEL, f"--data_dir={data}", f"--model_dir={processes.directory / 'm'}", "--num_workers=1")
    assert run.wait(90) == 2, run.output
    assert f"{path} is cut off within record 99, at byte" in run.lines[-1]
    assert run.descendants() == []

"""Whole jobs whose data and exports are on S3, as moto's server has it on the loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.records import write_lines, write_records
from tests.support.machine.processes import Processes

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")

KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """An S3 server; yields the environment with which it is found."""
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    running.stop()


@pytest.fixture
def files(store: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """The file system of the store, with an empty bucket `clicks`."""
    import s3fs

    for name, value in store.items():
        monkeypatch.setenv(name, value)
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    files.mkdir("clicks")
    yield files
    files.rm("clicks", recursive=True)


@pytest.mark.parametrize("model", ["Records", "Lines"])
def test_a_job_reads_its_data_from_there_and_exports_to_there(
    processes: Processes, store: dict[str, str], files, model: str
) -> None:
    local = processes.directory / "data"
    local.mkdir()
    write = write_records if model == "Records" else write_lines
    for number in range(5):
        write(local / f"train-{number}", 40 * number, 40 * number + 40)
    write(local / "test-0", 0, 90)
    for path in local.iterdir():
        files.put_file(str(path), f"clicks/data/{path.name}")
    directory = processes.directory / "m"
    flags = ["--sharding=dynamic", "--epochs=1", "--num_workers=2", "--num_ps=1", "--batch_size=16"]
    flags += [f"--model_dir={directory}", "--data_dir=s3://clicks/data", "--export_dir=s3://clicks/exports"]
    run = processes.run(f"--model=tests.support.data.records:{model}", *flags, env={**os.environ, **store})
    assert run.wait(120) == 0, run.output
    assert tf.train.load_checkpoint(str(directory)).get_tensor("total") == sum(range(200))
    assert json.loads((directory / "result.json").read_text())["metrics"] == {"ids": 1.0}
    files.invalidate_cache()
    files.get("clicks/exports/1", str(processes.directory / "e"), recursive=True)
    if model == "Records":
        records = list(tf.data.TFRecordDataset(str(local / "test-0")).take(6).as_numpy_iterator())
        signature = tf.saved_model.load(str(processes.directory / "e")).signatures["examples"]
        np.testing.assert_array_equal(signature(examples=tf.constant(records))["outputs"], [0, 1, 2, 0, 1, 2])


def test_a_bucket_that_is_not_there_is_one_line(processes: Processes, store: dict[str, str], files) -> None:
    flags = ["--data_dir=s3://nowhere/data", f"--model_dir={processes.directory / 'm'}"]
    run = processes.run("--model=tests.support.data.records:Records", *flags, env={**os.environ, **store})
    assert run.wait(120) == 2, run.output
    assert "s3://nowhere/data/train-* cannot be read: The specified bucket does not exist." in run.output

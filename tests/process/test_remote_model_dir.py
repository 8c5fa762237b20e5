"""Whole jobs whose model directory is on a file system of fsspec: a local one, and S3 as moto's server has it."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import time
from collections.abc import Iterator

import pytest
import tensorflow as tf

from ps_train.engine.run_directory.spool import checkpoint_files, listed_in, step_of
from tests.support.data.object_store import ObjectStore, object_store
from tests.support.machine.processes import Processes, eventually

URL = "s3://runs/a/1"
PATIENCE_SECS = 300
"""A busy machine needs many times as long as an idle one."""

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECS)

MODEL = "--model=ps_train.models.digits:Digits"
QUICK = ["--num_ps=1", "--num_workers=1", "--save_steps=20", "--keep_checkpoints=2", "--log_secs=0.2"]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def files(store: ObjectStore, monkeypatch: pytest.MonkeyPatch):
    """The file system of the store, with an empty bucket `runs`."""
    import s3fs

    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    files.mkdir("runs")
    yield files
    store.fault = ""
    files.rm("runs", recursive=True)


def listed(files) -> list[str]:
    """The names in the list of the store; also checks that all of their files are there."""
    if not files.exists("runs/a/1/checkpoint"):
        return []
    names = listed_in(files.cat_file("runs/a/1/checkpoint"))
    sizes = {path.removeprefix("runs/a/1/"): 1 for path in files.find("runs/a/1")}
    assert set(names) <= checkpoint_files(sizes).keys()
    return names


def machine(processes: Processes, store: ObjectStore | None, name: str) -> dict[str, str]:
    """The environment of a machine, which has a spool of its own."""
    folder = processes.directory / name
    folder.mkdir(exist_ok=True)
    return {**os.environ, **(store.environment if store else {}), "TMPDIR": str(folder)}


def spools(processes: Processes, name: str) -> list[pathlib.Path]:
    return [path for path in (processes.directory / name).glob("ps_train_spools_*/*") if any(path.iterdir())]


@pytest.mark.long
def test_a_job_goes_on_on_another_machine_from_what_is_on_the_store(processes: Processes) -> None:
    there = processes.directory / "store"
    there.mkdir()
    url = f"local://{there}"
    flags = [MODEL, *QUICK, f"--model_dir={url}/run"]
    first = processes.run(*flags, "--max_steps=40", env=machine(processes, None, "a"))
    assert first.wait(PATIENCE_SECS) == 0, first.output
    assert f"checkpoint {url}/run/model.ckpt-40" in first.output and spools(processes, "a") == []
    again = processes.run(*flags, "--max_steps=60", env=machine(processes, None, "b"))
    assert again.wait(PATIENCE_SECS) == 0, again.output
    assert f"resumed from {url}/run at step 40" in again.output
    assert listed_in((there / "run" / "checkpoint").read_bytes())[0] == "model.ckpt-60"
    assert json.loads((there / "run" / "status.json").read_text())["state"] == "done"
    assert json.loads((there / "run" / "result.json").read_text())["global_step"] == 60
    scored = processes.run(*flags, "--max_steps=60", "--job_name=evaluator", env=machine(processes, None, "c"))
    assert scored.wait(PATIENCE_SECS) == 0, scored.output
    (events,) = (there / "run" / "eval").iterdir()
    assert [event.step for event in tf.compat.v1.train.summary_iterator(str(events)) if event.step] == [60]
    assert not {"lock.json", ".uploaded", ".pinned"} & {path.name for path in (there / "run").iterdir()}
    assert spools(processes, "c") == []


@pytest.mark.long
def test_a_job_trains_through_faults_and_goes_on_on_another_machine_with_its_evaluator(
    processes: Processes, store: ObjectStore, files
) -> None:
    first = processes.run(MODEL, *QUICK, f"--model_dir={URL}", "--max_steps=1000", env=machine(processes, store, "a"))
    eventually(lambda: listed(files), PATIENCE_SECS, "the first checkpoint on the store")
    store.fault = "503"
    first.wait_for("takes no files", PATIENCE_SECS)
    store.fault = "cut"
    failed = store.failed
    eventually(lambda: store.failed > failed, PATIENCE_SECS, "a cut upload")
    store.fault = ""
    assert first.wait(PATIENCE_SECS) == 0, first.output
    assert first.output.count("takes no files") == 1 and f"checkpoint {URL}/model.ckpt-1000" in first.output
    assert listed(files)[0] == "model.ckpt-1000" and len(listed(files)) == 2
    names = {path.removeprefix("runs/a/1/") for path in files.find("runs/a/1")}
    assert {"result.json", "status.json", "run_id", "generations"} <= names and "lock.json" not in names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert json.loads(files.cat_file("runs/a/1/status.json"))["state"] == "done"
    assert spools(processes, "a") == []

    flags = [f"--model_dir={URL}", "--max_steps=1040"]
    again = processes.run(MODEL, *QUICK, *flags, env=machine(processes, store, "b"))
    assert again.wait(PATIENCE_SECS) == 0, again.output
    assert f"resumed from {URL} at step 1000" in again.output
    assert step_of(listed(files)[0]) == 1040 and step_of(listed(files)[1]) in (1000, 1020)  # one may be passed over
    scored = processes.run(MODEL, "--job_name=evaluator", *flags, env=machine(processes, store, "c"))
    assert scored.wait(PATIENCE_SECS) == 0, scored.output
    assert "evaluation at step 1040: accuracy" in scored.output
    (events,) = files.find("runs/a/1/eval")
    local = processes.directory / "events"
    files.get_file(events, str(local))
    assert [event.step for event in tf.compat.v1.train.summary_iterator(str(local)) if event.step] == [1040]
    assert spools(processes, "c") == []


@pytest.mark.long
def test_killed_at_some_moment_the_job_goes_on_on_another_machine_from_the_last_checkpoint_of_the_store(
    processes: Processes, store: ObjectStore, files
) -> None:
    flags = [*QUICK, f"--model_dir={URL}", "--max_steps=1000000", "--heartbeat_timeout_secs=3"]
    for number in range(4):
        running = processes.run(MODEL, *flags, env=machine(processes, store, f"m{number}"))
        before = step_of(listed(files)[0]) if number else 0
        eventually(lambda: [n for n in listed(files) if step_of(n) > before + 40 * number], PATIENCE_SECS)  # noqa: B023
        pids = [running.pid, *running.descendants()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        running.wait(PATIENCE_SECS)
        newest = listed(files)[0]
        if number:
            assert f"resumed from {URL} at step {before}" in running.output
        assert step_of(newest) > before
    again = processes.run(MODEL, *flags, env=machine(processes, store, "last"))
    again.wait_for(f"resumed from {URL} at step {step_of(newest)}", PATIENCE_SECS)
    second = processes.run(MODEL, *flags, env=machine(processes, store, "other"))
    assert second.wait(PATIENCE_SECS) == 2 and f"model_dir={URL} is in use by worker:0 on " in second.output
    again.send(signal.SIGTERM)
    assert again.wait(PATIENCE_SECS) == 143
    assert listed(files)[0] == f"model.ckpt-{again.output.rpartition('saved ' + URL)[2].split('-')[1].split()[0]}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "fault", "line"),
    [
        ("s3://nowhere/run", "", "cannot be used (nowhere does not exist): check the address"),
        (URL, "403", "cannot be used ("),
        ("memory://run", "", "is in the memory of one process"),
        ("none://run", "", "no package of fsspec knows none://"),
    ],
)
def test_a_directory_that_cannot_be_written_is_one_line_before_the_start(
    processes: Processes, store: ObjectStore, files, url: str, fault: str, line: str
) -> None:
    store.fault = fault
    run = processes.run(MODEL, f"--model_dir={url}", env=machine(processes, store, "a"))
    assert run.wait(PATIENCE_SECS) == 2, run.output
    assert line in run.output and len(run.lines) == 1, run.output


@pytest.mark.long
@pytest.mark.parametrize("task", ["worker", "evaluator"])
def test_a_store_that_hangs_at_the_start_ends_the_task_in_time(
    processes: Processes, store: ObjectStore, files, task: str
) -> None:
    store.fault = "hang"
    flags = ["--ps_hosts=127.0.0.1:1", "--worker_hosts=127.0.0.1:2", f"--job_name={task}", "--task_index=0"]
    began = time.monotonic()
    run = processes.run(
        MODEL, *flags, f"--model_dir={URL}", "--startup_timeout_secs=8", env=machine(processes, store, "a")
    )
    assert run.wait(PATIENCE_SECS) == 1, run.output
    assert f"model_dir={URL}" in run.lines[-1] and "does not answer (no answer within 8s)" in run.lines[-1], run.output
    assert time.monotonic() - began < PATIENCE_SECS


@pytest.mark.long
def test_training_goes_on_although_the_store_hangs(processes: Processes, store: ObjectStore, files) -> None:
    flags = [*QUICK, f"--model_dir={URL}", "--max_steps=1000000"]
    running = processes.run(MODEL, *flags, env=machine(processes, store, "a"))
    eventually(lambda: listed(files), PATIENCE_SECS, "the first checkpoint on the store")
    store.fault = "hang"
    running.wait_for("takes no files (an upload takes more than 30s)", PATIENCE_SECS)
    before = running.output.count("step ")
    eventually(lambda: running.output.count("step ") > before, PATIENCE_SECS, "training goes on")
    store.fault = ""
    running.wait_for("takes files again", PATIENCE_SECS)
    running.send(signal.SIGTERM)
    assert running.wait(PATIENCE_SECS) == 143

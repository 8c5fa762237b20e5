"""A disk that is full or gone costs checkpoints, not the training; the checkpoints before stay as they are."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.machine.processes import Process, Processes, eventually

COUNTING = ("--model=tests.support.models.small:Counting", "--num_workers=1", "--save_steps=10", "--log_secs=0.1")


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def whole(path: str) -> bool:
    reader = tf.train.load_checkpoint(path)
    return all(reader.get_tensor(name) is not None for name in reader.get_variable_to_shape_map())


def goes_on(run: Process, words: str) -> None:
    run.wait_for(words, 60)
    seen = run.output.index(words)
    eventually(lambda: "\nstep " in run.output[seen:], 20, "progress")


def test_on_a_full_disk_training_goes_on_and_saves_again_when_there_is_room(
    processes: Processes, small_disk: pathlib.Path
) -> None:
    run = processes.run(*COUNTING, "--max_steps=300", f"--model_dir={small_disk}")
    eventually(lambda: len(checkpoints_in(str(small_disk))) >= 2, 60, "the second checkpoint")
    filler = small_disk / "filler"
    try:
        with filler.open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
    except OSError:
        pass
    goes_on(run, "training continues, the last checkpoint is of step")
    assert "could not be written" in run.output
    newest = checkpoints_in(str(small_disk))[0]
    assert whole(newest[1]), "what was there before is as it was"
    filler.unlink()
    assert run.wait(60) == 0, run.output
    assert json.loads((small_disk / "result.json").read_text())["global_step"] == 300
    assert checkpoints_in(str(small_disk))[0][0] == 300 and all(
        whole(path) for _, path in checkpoints_in(str(small_disk))
    )


@pytest.mark.long
def test_a_directory_that_vanishes_is_made_again(processes: Processes) -> None:
    directory = processes.directory / "model"
    run = processes.run(*COUNTING, "--max_steps=150", f"--model_dir={directory}")
    eventually(lambda: len(checkpoints_in(str(directory))) >= 2, 60, "the second checkpoint")
    shutil.rmtree(directory)
    assert run.wait(60) == 0, run.output
    assert checkpoints_in(str(directory))[0][0] == 150 and whole(checkpoints_in(str(directory))[0][1])

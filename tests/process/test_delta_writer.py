"""--delta_every_secs: a job's chain of deltas leads to its last checkpoint, also when it was killed in between."""

from __future__ import annotations

import pathlib
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_train import serving
from ps_train.base import side_work
from ps_train.base.errors import SaveError
from ps_train.engine.run_directory.lasting_checkpoints import read_lasting
from ps_train.engine.run_directory.run_checkpoints import checkpoints_in
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.manifest import read_manifest
from ps_train.saved.values import open_saved
from ps_train.training.duties.delta_writer import DeltaWriter
from tests.process.test_warm_start import FLAGS, MODEL
from tests.support.machine.processes import Processes, eventually
from tests.support.saved.checkpoints import write_checkpoint


def deltas_of(directory: pathlib.Path) -> list[str]:
    return sorted(str(path) for path in (directory / "deltas").glob("0*") if path.name.isdigit())


@pytest.mark.long
def test_the_chain_leads_to_the_last_checkpoint_over_kills_and_restarts(processes: Processes) -> None:
    directory = processes.directory
    (directory / "net.py").write_text(MODEL)
    model_dir = directory / "run"
    keeping = ("--keep_checkpoints=1", "--keep_every_hours=0.0003")
    flags = (*FLAGS, "--model_dir=run", "--delta_every_secs=0.5", *keeping, "--batch_size=8")
    first = processes.run(*flags, "--max_steps=1000000")
    deadline = time.monotonic() + 200
    while len(deltas_of(model_dir)) < 2 or not read_lasting(str(model_dir)).steps:
        assert time.monotonic() < deadline and first.process.poll() is None, first.output
        time.sleep(0.1)
    first.process.send_signal(signal.SIGKILL)
    first.wait(30)
    before, stayed = deltas_of(model_dir), read_lasting(str(model_dir)).steps

    step = int(tf.train.load_variable(str(model_dir), "global_step"))
    again = processes.run(*flags, "--num_ps=1", f"--max_steps={step + 500}", "--export_dir=export")
    assert again.wait(150) == 0, again.output
    assert any(line.startswith("deltas ") for line in again.lines), again.output
    steps = {step for step, _ in checkpoints_in(str(model_dir))}
    assert {*stayed} < steps and len(steps) == 1 + len(read_lasting(str(model_dir)).steps), "the last, and one a second"
    deltas = deltas_of(model_dir)
    assert deltas[: len(before)] == before and len(deltas) > len(before)
    apply_deltas(open_saved(str(model_dir / "deltas/base")), deltas, str(directory / "copy"))
    copied, wanted = (tf.train.load_checkpoint(str(path)) for path in (directory / "copy", model_dir))
    assert copied.get_variable_to_shape_map() == wanted.get_variable_to_shape_map()
    for key in wanted.get_variable_to_shape_map():
        assert np.array_equal(copied.get_tensor(key), wanted.get_tensor(key)), key

    ids = np.arange(300)
    expected = tf.saved_model.load(str(directory / "export/1")).signatures["serving_default"](features=tf.constant(ids))
    with serving.load(str(model_dir / "deltas"), poll_secs=0, export=str(directory / "export")) as model:
        assert model.global_step == step + 500
        np.testing.assert_array_equal(model.predict(ids)["outputs"], expected["outputs"])


def test_a_writer_that_fails_or_dies_goes_on_and_is_seen(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_checkpoint(tmp_path, 5)
    (tmp_path / "deltas").touch()  # in the way, as a full disk is
    writer = DeltaWriter(str(tmp_path), 0.2)
    try:
        eventually(lambda: "deltas" in side_work.failing(), 60, "the failure")
        assert "cannot be written" in side_work.failing()["deltas"].reason
        writer._process.send(signal.SIGKILL)
        eventually(lambda: "exit code -9" in side_work.failing()["deltas"].reason, 60, "the death")
        (tmp_path / "deltas").unlink()
        eventually(lambda: "deltas" not in side_work.failing(), 60, "the base")
        assert (tmp_path / "deltas" / "base").is_dir()
        write_checkpoint(tmp_path, 9)
        writer.finish(60)
        assert [read_manifest(path).next.global_step for path in deltas_of(tmp_path)] == [9]
    finally:
        writer.close()
    assert [record.message[:6] for record in caplog.records if record.levelname == "WARNING"] == ["deltas"]


def test_a_chain_that_cannot_go_on_fails_the_end_of_the_job(tmp_path: pathlib.Path) -> None:
    write_checkpoint(tmp_path, 5)
    writer = DeltaWriter(str(tmp_path), 0.2)
    try:
        eventually(lambda: (tmp_path / "deltas" / "base").is_dir(), 60, "the base")
        (tmp_path / "deltas" / "000003").mkdir()  # a gap
        write_checkpoint(tmp_path, 9)
        eventually(lambda: "deltas" in side_work.failing(), 60, "the failure")
        with pytest.raises(SaveError, match=r"the deltas are not written .*to begin another chain"):
            writer.finish(60)
    finally:
        writer.close()
        side_work.works("deltas")

"""No job ends because TensorFlow refuses a call, and nothing gets lost by it (docs/decisions/0019-refused-calls.md)."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.process.test_dynamic_sharding import ones_for
from tests.support.clusters.refusals import refusing
from tests.support.long import long
from tests.support.machine.processes import ROOT, Processes


def trained(tmp_path: pathlib.Path, bits: int, *cases: str) -> list[dict]:
    command = [sys.executable, "-m", "tests.support.clusters.refused_calls", *cases]
    done = subprocess.run(
        command, env=refusing(tmp_path, bits), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mode, num_ps, steps_per_run, bits",
    [
        long("async", 1, 1, 10),
        long("async", 2, 2, 8),
        long("bounded", 1, 1, 8),
        long("bounded", 2, 2, 8),
        long("sync", 1, 2, 8),
        ("sync", 2, 2, 10),
        ("ahead", 2, 2, 8),
    ],
)
def test_every_step_is_made_once_and_of_the_batch_that_was_next(
    tmp_path, mode: str, num_ps: int, steps_per_run: int, bits: int
) -> None:
    (found,) = trained(tmp_path, bits, f"{mode}:{num_ps}:1:{steps_per_run}")
    assert found["step"] == found["expected"], found
    assert found.get("difference", 0) < 1e-5, found
    assert found["refused"] > 0, found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "update, num_ps",
    [long("async", 1), long("async", 2), long("bounded", 1), long("bounded", 2), long("sync", 2), long("sync", 1)],
)
def test_a_job_uses_every_example_once_although_all_its_tasks_refuse_calls(
    processes: Processes, tmp_path, update: str, num_ps: int
) -> None:
    # With n calls made, a call is refused with a probability of n / 2**bits, and so is each of the 20 calls that open a
    # session.  One in ten refusals makes a call hang: for 5 s in a step, for 45 to 90 s while a session opens.  Under
    # sync all workers wait for that, and the calls of the waiting chief make the next refusal more likely: with 13 bits
    # an opening fails more often than not after 1000 calls.  So the refusals come from more calls, not from fewer ids.
    model_dir, (count, bits) = tmp_path / "model", (4800, 19) if update == "sync" else (1200, 13)
    flags = [
        "--model=tests.support.data.recording:Recording", f"--model_arg=count={count}", "--model_arg=secs=0.005",
        "--sharding=dynamic", "--batch_size=4", "--epochs=1", "--max_steps=100000", "--save_steps=20",
        "--heartbeat_timeout_secs=5", "--verbose", "--num_workers=2", f"--num_ps={num_ps}", f"--update={update}",
        *ones_for(update),
    ]  # fmt: skip
    job = processes.run(*flags, f"--model_dir={model_dir}", env=refusing(tmp_path, bits))
    assert job.wait(240) == 0, job.output
    values = tf.train.load_checkpoint(str(model_dir))
    for name in ("first", "second"):
        np.testing.assert_array_equal(values.get_tensor(name), 1)
    assert json.loads((model_dir / "result.json").read_text())["examples"] == count
    assert "a call was refused" in job.output, job.output


@pytest.mark.long
def test_records_of_a_ps_are_written_once(tmp_path) -> None:
    (found,) = trained(tmp_path, 14, "board")
    assert found["step"] == found["expected"] and found["refused"] > 5, found

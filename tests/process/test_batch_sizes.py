"""A job whose batch size follows the network, as real processes: what was chosen is seen, saved and taken up again."""

from __future__ import annotations

import json
import re
import signal

import pytest

from tests.process.test_event_files import events_of
from tests.support.long import long
from tests.support.machine.processes import Processes

FLAGS = (
    "--model=tests.support.models.small:Linear",
    "--log_secs=0.5",
    "--num_workers=2",
    "--health_limits=sync_share:0",
)
_SIZE = re.compile(r"  batch (\d+)  ")


@pytest.mark.long
@pytest.mark.parametrize(
    "flags", [["--update=sync", "--scale_learning_rate=linear"], long(["--sharding=dynamic", "--shard_examples=64"])]
)
def test_batches_grow_and_a_resumed_job_begins_with_the_size_that_it_had(
    processes: Processes, flags: list[str]
) -> None:
    directory = processes.directory / "m"
    common = [*FLAGS, *flags, "--batch_size=8..64", f"--model_dir={directory}"]
    run = processes.run(*common, "--max_steps=100000000")
    run.wait_for("batch_size=16 from step ", within_secs=150)
    run.send(signal.SIGTERM)
    assert run.wait(60) != 0
    (saved,) = re.findall(r"saved .*model\.ckpt-(\d+)", run.output)[-1:]
    changes = re.findall(r"batch_size=(\d+) from step (\d+) on", run.output)
    resumed = processes.run(*common, f"--max_steps={int(saved) + 200}")
    assert resumed.wait(150) == 0, resumed.output
    sizes = [int(size) for size in _SIZE.findall(resumed.output)]
    expected = int(changes[-1][0])
    assert sizes[0] in (expected, expected // 2, 2 * expected), "there may be a change before the first line"
    result = json.loads((directory / "result.json").read_text())
    assert result["global_step"] == int(saved) + 200
    assert result["batch_size"] == sizes[-1]


@pytest.mark.long
def test_the_size_is_in_the_event_file_and_a_fixed_one_is_not(processes: Processes) -> None:
    for size, tags in (("8..64", True), ("8", False)):
        directory = processes.directory / f"m{tags}"
        run = processes.run(*FLAGS, f"--batch_size={size}", f"--model_dir={directory}", "--max_steps=50")
        assert run.wait(150) == 0, run.output
        assert ("batch_size" in events_of(directory).Tags()["scalars"]) == tags
        assert ("batch_size" in json.loads((directory / "result.json").read_text())) == tags
        assert bool(_SIZE.search(run.output)) == tags

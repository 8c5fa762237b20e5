"""The order of the examples: another one for each worker and after each resume, but the same in every such run."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import pytest

from tests.support.machine.processes import Process, Processes

BATCH, STEPS = 50, 2
FLAGS = ["--model=tests.support.models.small:Ordered", "--update=sync", f"--batch_size={BATCH}", "--num_ps=1"]


def begin(processes: Processes, directory: pathlib.Path, max_steps: int) -> Process:
    return processes.run(*FLAGS, "--num_workers=2", f"--max_steps={max_steps}", f"--model_dir={directory}")


def orders(run: Process) -> list[list[int]]:
    """The first examples of each worker, as numbers within its share: those of worker k are the k-th of every two."""
    assert run.wait(90) == 0, run.output
    batches = [json.loads(found) for found in re.findall(r"examples (\[.*?\])", run.output)]
    firsts = [next(batch for batch in batches if batch[0] % 2 == worker) for worker in (0, 1)]
    assert all(len({number % 2 for number in batch}) == 1 and len(set(batch)) == BATCH for batch in firsts)
    return [[number // 2 for number in batch] for batch in firsts]


@pytest.mark.long
def test_examples_come_in_another_order_after_a_resume_and_on_another_worker(processes: Processes) -> None:
    directory, other = processes.directory / "model", processes.directory / "copy"
    first = orders(begin(processes, directory, STEPS))
    shutil.copytree(directory, other)
    resumed, again = (begin(processes, path, 2 * STEPS) for path in (directory, other))
    after = orders(resumed)
    assert "resumed from" in resumed.output
    assert orders(again) == after, "a run that is resumed twice sees the same"
    assert len({tuple(order) for order in (*first, *after)}) == 4
    assert sorted(first[0]) != first[0], "they are shuffled"

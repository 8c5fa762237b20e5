"""`python -m benchmarks accuracy`: test scores of shipped jobs with smaller messages, against the same job without.

Each job runs to its end under `sync`, whose results do not depend on the load of the machine, and its test split is
scored by the job itself.  The differences stand beside what is allowed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.errors import ContenderError
from benchmarks.processes import Processes, Program
from benchmarks.table import markdown

_JOB_SECS = 1200.0
_PLAIN = ""


@dataclasses.dataclass(frozen=True)
class Job:
    """A shipped job and the score that is compared.

    Attributes:
      metric: a key of `metrics` in result.json.
      allowed: how far below the plain job's score the others may be; `sparse` for those that push top_k.
    """

    name: str
    metric: str
    allowed: float
    sparse: float
    flags: tuple[str, ...]


JOBS = (
    Job("digits", "accuracy", 0.003, 0.003, ("--model=ps_train.models.digits:Digits", "--max_steps=2000")),
    Job(
        "criteo",
        "auc",
        0.001,
        0.003,
        ("--model=ps_train.models.criteo:WideAndDeep", "--batch_size=256", "--max_steps=1750"),
    ),
)
VARIANTS = (
    _PLAIN,
    "--pull_codec=bfloat16",
    "--pull_codec=float16",
    "--pull_codec=int8",
    "--push_codec=bfloat16",
    "--push_codec=float16",
    "--push_codec=int8",
    "--push_codec=top_k:0.01",
    "--push_codec=top_k:0.01,int8",
    "--pull_codec=bfloat16 --push_codec=bfloat16",
    "--pull_codec=bfloat16 --push_codec=int8",
    "--pull_codec=int8 --push_codec=int8",
    "--compute_dtype=bfloat16",
    "--compute_dtype=float16",
)


def run(options: argparse.Namespace) -> int:
    flags = ["--update=sync", f"--num_ps={options.num_ps}", f"--num_workers={options.num_workers}"]
    scores = {job.name: {variant: score(job, [*flags, *variant.split()]) for variant in VARIANTS} for job in JOBS}
    record = {"date": results.today(), "machine": machine.machine(), "flags": flags, "scores": scores}
    text = report(record)
    results.store("accuracy", record, text, "", options.results)
    print(text)
    return 0


def score(job: Job, flags: Sequence[str]) -> float:
    """Trains the job to its end, and returns its score.  Raises ContenderError if it does not get there."""
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        command = [sys.executable, "-m", "ps_train", *job.flags, *flags, "--model_dir=model", "--save_secs=3600"]
        running = processes.start(Program(job.name, command))
        running.wait_for(lambda line: line.text.startswith("checkpoint "), _JOB_SECS)
        path = pathlib.Path(directory, "model", "result.json")
        if not path.exists():
            raise ContenderError(f"{job.name} {' '.join(flags)} wrote no result.json")
        score = float(json.loads(path.read_text())["metrics"][job.metric])
    print(f"{job.name} {' '.join(flags)}: {job.metric} {score:.5f}", flush=True)
    return score


def report(record: dict[str, Any]) -> str:
    """The differences to the plain job, and whether each is allowed."""
    rows = []
    for job in JOBS:
        scores = record["scores"][job.name]
        for variant, score in scores.items():
            less = scores[_PLAIN] - score
            allowed = job.sparse if "top_k" in variant else job.allowed
            verdict = "-" if variant == _PLAIN else "yes" if less <= allowed else "no"
            cells = [f"{job.metric} {score:.5f}", f"{-less:+.5f}", f"-{allowed:g}", verdict]
            rows.append([f"{job.name} {variant or 'plain'}", *cells])
    lines = [f"# Accuracy, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"Each job once, with {' '.join(record['flags'])}, to the same number of steps.", ""]
    return "\n".join([*lines, markdown(["job", "score", "difference", "allowed", "holds"], rows), ""])

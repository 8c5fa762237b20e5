"""`python -m benchmarks local_scores`: test scores of jobs with local steps, after as many examples as without.

Each job runs to its end and scores its test split itself.  Under `sync` a step is a batch of each worker, otherwise of
one, so that jobs of one number of workers differ in max_steps and not in examples.  Scores of `async` are another each
time.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import accuracy, machine, results
from benchmarks.errors import UsageError
from benchmarks.table import markdown

_UPDATES = ("sync", "async")
_OUTER = ("sgd", "nesterov", "elastic")
_WORKERS = (2, 4)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A job.

    Attributes:
      metric: a key of `metrics` in result.json.
      batches: batches of the whole job, of all workers.
      flags: of all its runs; `{clicks}` is a directory with files of clicks.
      outer: the outer optimizers.
    """

    metric: str
    batches: int
    flags: tuple[str, ...]
    outer: tuple[str, ...] = _OUTER


JOBS = {
    "digits": Trained("accuracy", 4096, ("--model=ps_train.models.digits:Digits",)),
    "bars": Trained("accuracy", 4096, ("--model=benchmarks.workloads.bars:Bars", "--batch_size=32")),
    "clicks": Trained(
        "auc",
        1408,
        ("--model=examples.click_files:ClickFiles", "--data_dir={clicks}", "--batch_size=256"),
        ("sgd", "nesterov"),
    ),
}
LOCAL_STEPS = (8, 32, 128)


def run(options: argparse.Namespace) -> int:
    """Trains all jobs, or those of --data; stores and prints the scores."""
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "scores": {}}
    chosen = options.data.split(",") if options.data else [*JOBS]
    if unknown := {*chosen} - {*JOBS}:
        raise UsageError(f"--data={options.data} is not valid: use some of {', '.join(JOBS)}; not {unknown.pop()!r}.")
    with tempfile.TemporaryDirectory() as clicks:
        if "clicks" in chosen:
            make = [sys.executable, "-m", "ps_train.models.clicks", "--make", clicks, "--lines=120000", "--parts=4"]
            subprocess.run(make, check=True, capture_output=True)
        for name, workers in itertools.product(chosen, _WORKERS):
            job = dataclasses.replace(JOBS[name], flags=tuple(f.format(clicks=clicks) for f in JOBS[name].flags))
            for update in _UPDATES:
                for steps, outer in [(1, ""), *itertools.product(LOCAL_STEPS, job.outer)]:
                    key = "/".join([name, str(workers), update, str(steps), outer])
                    record["scores"][key] = _score(name, job, workers, update, steps, outer)
    text = report(record)
    results.store("local_scores", record, text, "", options.results)
    print(text)
    return 0


def _score(name: str, job: Trained, workers: int, update: str, steps: int, outer: str) -> float:
    max_steps = job.batches // workers if update == "sync" else job.batches
    flags = [f"--update={update}", f"--num_workers={workers}", "--num_ps=1", f"--max_steps={max_steps}"]
    flags += [f"--local_steps={steps}", f"--outer_optimizer={outer}"] if outer else []
    return accuracy.score(accuracy.Job(name, job.metric, 0.0, 0.0, job.flags), flags)


def report(record: dict[str, Any]) -> str:
    """Returns the table: a row for each job, number of workers and mode, a column for each kind of local steps."""
    kinds = [(1, ""), *itertools.product(LOCAL_STEPS, _OUTER)]
    rows: dict[tuple[str, ...], dict[tuple[int, str], float]] = {}
    for key, score in record["scores"].items():
        name, workers, update, steps, outer = key.split("/")
        rows.setdefault((name, workers, update), {})[int(steps), outer] = score
    lines = [f"# Scores with local steps, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += ["Each job once; as many examples in every column.  H is --local_steps.", ""]
    heads = ["job", "workers", "update", *(f"H={steps} {outer}".strip() for steps, outer in kinds)]
    cells = [
        [*row, *(f"{scores[kind]:.4f}" if kind in scores else "-" for kind in kinds)] for row, scores in rows.items()
    ]
    return "\n".join([*lines, markdown(heads, cells), ""])

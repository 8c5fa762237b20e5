"""`python -m benchmarks modes`: the update modes on four workers of which one is slow.

Time and global steps to the same test accuracy, what was waited and dropped, and a picture of the workers' clocks; and
whether a backup worker keeps up the speed of a cluster without a slow worker.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import pathlib
import sys
import tempfile
from typing import Any

from benchmarks import machine, results
from benchmarks.processes import Processes, Program, free_ports
from benchmarks.summary import ratio_of_medians, spread_of
from benchmarks.table import markdown
from benchmarks.timeline import Step, timeline
from benchmarks.uneven import PAUSE_VARIABLE

WORKERS, SLOW, PAUSE_MS, TIMES_SLOWER = 4, 3, 10, 10
ACCURACY, SAVE_STEPS, WITHIN_SECS = 0.95, 20, 180.0
WITHOUT = "sync, 1 backup, none slow"


@dataclasses.dataclass(frozen=True)
class Mode:
    flags: tuple[str, ...]
    max_steps: int
    slow: bool = True


MODES = {
    "async": Mode(("--update=async",), 600),
    "bounded, staleness 4": Mode(("--update=bounded", "--max_steps_ahead=4"), 400),
    "bounded, staleness 1": Mode(("--update=bounded", "--max_steps_ahead=1"), 400),
    "sync": Mode(("--update=sync",), 150),
    "sync, 1 backup": Mode(("--update=sync", "--backup_workers=1"), 150),
    WITHOUT: Mode(("--update=sync", "--backup_workers=1"), 150, slow=False),
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """One run: rates of the whole of it, and where it first reached the accuracy (None: nowhere)."""

    steps_per_sec: float
    steps: int | None
    secs: float | None
    staleness: float | None
    waiting: float | None
    dropped: int
    clocks: list[list[Step]]


def run(options: argparse.Namespace) -> int:
    found: dict[str, list[Measured]] = {name: [] for name in MODES}
    for number in range(options.repeats):
        print(f"round {number + 1} of {options.repeats}", file=sys.stderr)
        for name, mode in MODES.items():
            found[name].append(measure(mode))
    record = {
        "date": results.today(),
        "machine": machine.machine(),
        "modes": {name: [_plain(one) for one in runs] for name, runs in found.items()},
    }
    text = report(record)
    panels = {name: found[name][-1].clocks for name in MODES if name != WITHOUT}
    results.store("modes", record, text, timeline(panels, SLOW), options.results)
    print(text)
    return 0


def measure(mode: Mode) -> Measured:
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        model_dir, timeline_dir = pathlib.Path(directory, "model"), pathlib.Path(directory, "clocks")
        ports = free_ports(1 + WORKERS)
        hosts = [f"127.0.0.1:{port}" for port in ports]
        command = [sys.executable, "-m", "ps_train", f"--ps_hosts={hosts[0]}", f"--worker_hosts={','.join(hosts[1:])}"]
        command += ["--model=benchmarks.uneven:UnevenDigits", f"--max_steps={mode.max_steps}", *mode.flags]
        command += [f"--timeline_dir={timeline_dir}", f"--save_steps={SAVE_STEPS}", "--save_secs=0"]
        command += ["--keep_checkpoints=1000", "--log_secs=0.5"]
        processes.start(Program("ps:0", [*command, "--job_name=ps", "--task_index=0"]))
        workers = []
        for index in range(WORKERS):
            own = ["--job_name=worker", f"--task_index={index}", *([f"--model_dir={model_dir}"] if index == 0 else [])]
            pause = PAUSE_MS * (TIMES_SLOWER if mode.slow and index == SLOW else 1)
            program = Program(f"worker:{index}", [*command, *own], {PAUSE_VARIABLE: str(pause)})
            workers.append(processes.start(program))
        workers[0].wait_for(lambda line: line.text.startswith("checkpoint "), WITHIN_SECS)
        return _read(model_dir, timeline_dir)


def _read(model_dir: pathlib.Path, timeline_dir: pathlib.Path) -> Measured:
    result = json.loads((model_dir / "result.json").read_text())
    clocks = [read_clocks(path) for path in sorted(timeline_dir.glob("*.csv"))]
    began = min(steps[0].began for steps in clocks)
    reached = _first_good(model_dir)
    return Measured(
        result["steps_per_sec"],
        reached[0] if reached else None,
        reached[1] - began if reached else None,
        result.get("staleness", {}).get("mean"),
        result.get("waiting", {}).get("share"),
        result["dropped"],
        clocks,
    )


def read_clocks(path: pathlib.Path) -> list[Step]:
    with path.open() as file:
        return [Step(float(row["began"]), float(row["ended"])) for row in csv.DictReader(file)]


def _first_good(model_dir: pathlib.Path) -> tuple[int, float] | None:
    """Step and time of the first checkpoint that scores ACCURACY on the test split."""
    from ps_train.data.pipeline import DataSource
    from ps_train.engine.checkpoint.run_checkpoints import checkpoints_in
    from ps_train.models.digits import Digits
    from ps_train.training.tasks.evaluator import score

    model = Digits()
    source = DataSource(lambda: model.data("test", ""))
    for step, path in reversed(checkpoints_in(str(model_dir))):
        if step and score(model, source, path)["accuracy"] >= ACCURACY:
            return step, pathlib.Path(path + ".index").stat().st_mtime
    return None


def _plain(one: Measured) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(one).items() if name != "clocks"}


def report(record: dict[str, Any]) -> str:
    rows = []
    for name, runs in record["modes"].items():
        row = [name, _spread(runs, "steps_per_sec"), _spread(runs, "steps"), _spread(runs, "secs")]
        rows.append([*row, _spread(runs, "staleness"), _spread(runs, "waiting"), _spread(runs, "dropped")])
    rates = {name: [one["steps_per_sec"] for one in runs] for name, runs in record["modes"].items()}
    kept = ratio_of_medians(rates["sync, 1 backup"], rates[WITHOUT])
    head = ["mode", "global steps/s", f"steps to {ACCURACY:.0%}", "seconds", "staleness", "waiting", "dropped"]
    about = (
        f"Digits, 1 ps, {WORKERS} workers; a step pauses {PAUSE_MS} ms, that of one worker "
        f"{PAUSE_MS * TIMES_SLOWER} ms. Medians (lowest - highest) of {len(rates['sync'])} interleaved runs; seconds "
        f"from the first step to the first checkpoint (one every {SAVE_STEPS} steps) that scores {ACCURACY:.0%} of "
        "the test split."
    )
    backup = f"With one backup the job has {kept or 0:.2f} of the speed of the same cluster without a slow worker."
    title = f"# Update modes with one slow worker of {WORKERS}, {record['date']}"
    return "\n".join([title, "", machine.text(record["machine"]), "", about, "", markdown(head, rows), "", backup, ""])


def _spread(runs: list[dict[str, Any]], name: str) -> str:
    values = [one[name] for one in runs if one[name] is not None]
    return spread_of(values).text() if values else "-"

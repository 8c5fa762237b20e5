"""`python -m benchmarks modes`: the update modes on four workers of which one is slow.

Time and global steps to the same test accuracy, what was waited and dropped, and a picture of the workers' clocks; and
whether a backup worker keeps up the speed of a cluster without a slow worker, and local steps that of all machines of
which one has half the speed.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.processes import Processes, Program
from benchmarks.summary import ratio_of_medians, spread_of
from benchmarks.table import markdown
from benchmarks.timeline import Step, timeline
from benchmarks.uneven import PAUSE_VARIABLE
from tests.support.machine.ports import free_ports

WORKERS, SLOW, PAUSE_MS, TIMES_SLOWER = 4, 3, 10, 10
ACCURACY, SAVE_STEPS, WITHIN_SECS = 0.95, 20, 180.0
PROFILE = "40:60"
WITHOUT = "sync, 1 backup, none slow"
ROUND_SECS = 0.4
"""Seconds of a round: a usual worker then makes some 32 steps."""


@dataclasses.dataclass(frozen=True)
class Mode:
    """Attributes:
    slower: by what factor one worker is slower.
    """

    flags: tuple[str, ...]
    max_steps: int
    slower: int = TIMES_SLOWER


MODES = {
    "async": Mode(("--update=async",), 600),
    "bounded, staleness 4": Mode(("--update=bounded", "--max_steps_ahead=4"), 400),
    "bounded, staleness 1": Mode(("--update=bounded", "--max_steps_ahead=1"), 400),
    "sync": Mode(("--update=sync",), 150),
    "sync, 1 backup": Mode(("--update=sync", "--backup_workers=1"), 150),
    "sync, 8 local steps": Mode(("--update=sync", "--local_steps=8"), 160),
    "async, 8 local steps": Mode(("--update=async", "--local_steps=8", f"--save_steps={4 * SAVE_STEPS}"), 640),
    WITHOUT: Mode(("--update=sync", "--backup_workers=1"), 150, slower=1),
}


_ROUNDS = ("--update=sync", "--save_steps=1280")
_TIMED = (*_ROUNDS, "--local_steps=64", f"--round_secs={ROUND_SECS:g}")
HALF = {
    "all alike": Mode(_TIMED, 1280, slower=1),
    "one of half the speed": Mode(_TIMED, 1280, slower=2),
    "one of half the speed, without `--round_secs`": Mode((*_ROUNDS, "--local_steps=32"), 1280, slower=2),
    "one of half the speed, 1 backup": Mode((*_ROUNDS, "--local_steps=32", "--backup_workers=1"), 1280, slower=2),
}
"""Rounds of workers of which one has half the speed of the others."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """One run: rates of the whole of it, and where it first reached the accuracy (None: nowhere)."""

    steps_per_sec: float
    examples_per_sec: float
    steps: int | None
    secs: float | None
    staleness: float | None
    waiting: float | None
    dropped: int


def run(options: argparse.Namespace) -> int:
    measured = MODES | HALF
    found: dict[str, list[Measured]] = {name: [] for name in measured}
    for number in range(options.repeats):
        print(f"round {number + 1} of {options.repeats}", file=sys.stderr)
        for name, mode in measured.items():
            found[name].append(measure(mode))
    record = {
        "date": results.today(),
        "machine": machine.machine(),
        "modes": {name: [dataclasses.asdict(one) for one in runs] for name, runs in found.items()},
    }
    text = report(record)
    panels = {name: steps_of(mode) for name, mode in MODES.items() if name != WITHOUT}
    results.store("modes", record, text, timeline(panels, SLOW), options.results)
    print(text)
    return 0


def measure(mode: Mode) -> Measured:
    with tempfile.TemporaryDirectory() as directory:
        return _read(train(mode, directory))


def steps_of(mode: Mode) -> list[list[Step]]:
    """The workers' steps in the middle of a run of its own, which is not measured: a profile slows its steps."""
    with tempfile.TemporaryDirectory() as directory:
        (path,) = train(mode, directory, f"--profile={PROFILE}").glob("plugins/profile/*/steps.trace.json.gz")
        with gzip.open(path) as file:
            return read_steps(json.load(file)["traceEvents"])


def train(mode: Mode, directory: str, *flags: str) -> pathlib.Path:
    """Trains once and returns the model directory."""
    with Processes(pathlib.Path(directory)) as processes:
        model_dir = pathlib.Path(directory, "model")
        ports = free_ports(1 + WORKERS)
        hosts = [f"127.0.0.1:{port}" for port in ports]
        command = [sys.executable, "-m", "ps_train", f"--ps_hosts={hosts[0]}", f"--worker_hosts={','.join(hosts[1:])}"]
        command += ["--model=benchmarks.uneven:UnevenDigits", f"--max_steps={mode.max_steps}"]
        command += [f"--save_steps={SAVE_STEPS}", "--save_secs=0", "--keep_checkpoints=1000", "--log_secs=0.5"]
        command += ["--steps_per_run=1", *mode.flags, *flags]  # every call is one step, a box of the picture
        processes.start(Program("ps:0", [*command, "--job_name=ps", "--task_index=0"]))
        workers = []
        for index in range(WORKERS):
            own = ["--job_name=worker", f"--task_index={index}", *([f"--model_dir={model_dir}"] if index == 0 else [])]
            pause = PAUSE_MS * (mode.slower if index == SLOW else 1)
            program = Program(f"worker:{index}", [*command, *own], {PAUSE_VARIABLE: str(pause)})
            workers.append(processes.start(program))
        workers[0].wait_for(lambda line: line.text.startswith("checkpoint "), WITHIN_SECS)
        return model_dir


def _read(model_dir: pathlib.Path) -> Measured:
    result = json.loads((model_dir / "result.json").read_text())
    began = (model_dir / "model.ckpt-0.index").stat().st_mtime
    reached = _first_good(model_dir)
    return Measured(
        result["steps_per_sec"],
        result["examples"] / result["global_step"] * result["steps_per_sec"],
        reached[0] if reached else None,
        reached[1] - began if reached else None,
        result.get("staleness", {}).get("mean"),
        result.get("waiting", {}).get("share"),
        result["dropped"],
    )


def read_steps(events: Sequence[dict[str, Any]]) -> list[list[Step]]:
    """Each worker's steps, from the events of a trace: the lane "1 calls"."""
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    lanes = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    steps: dict[str, list[Step]] = {f"worker:{index}": [] for index in range(WORKERS)}
    for event in events:
        if event["ph"] == "X" and lanes[event["pid"], event["tid"]] == "1 calls":
            steps[names[event["pid"]]].append(Step(event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6))
    return list(steps.values())


def _first_good(model_dir: pathlib.Path) -> tuple[int, float] | None:
    """Step and time of the first checkpoint that scores ACCURACY on the test split."""
    from ps_train.data.pipeline import DataSource
    from ps_train.engine.run_directory.run_checkpoints import checkpoints_in
    from ps_train.models.digits import Digits
    from ps_train.training.duties.export_model import score

    model = Digits()
    source = DataSource(lambda: model.data("test", ""))
    for step, path in reversed(checkpoints_in(str(model_dir))):
        if step and score(model, source, path)["accuracy"] >= ACCURACY:
            return step, pathlib.Path(path + ".index").stat().st_mtime
    return None


def report(record: dict[str, Any]) -> str:
    rows = []
    for name, runs in ((name, runs) for name, runs in record["modes"].items() if name not in HALF):
        row = [name, _spread(runs, "steps_per_sec"), _spread(runs, "steps"), _spread(runs, "secs")]
        rows.append([*row, _spread(runs, "staleness"), _spread(runs, "waiting"), _spread(runs, "dropped")])
    rates = {name: [one["steps_per_sec"] for one in runs] for name, runs in record["modes"].items()}
    kept = ratio_of_medians(rates["sync, 1 backup"], rates[WITHOUT])
    head = ["mode", "global steps/s", f"steps to {ACCURACY:.0%}", "seconds", "staleness", "waiting", "dropped"]
    about = (
        f"Digits, 1 ps, {WORKERS} workers; a step pauses {PAUSE_MS} ms, that of one worker "
        f"{PAUSE_MS * TIMES_SLOWER} ms. Medians (lowest - highest) of {len(rates['sync'])} interleaved runs; seconds "
        f"from the checkpoint of step 0 to the first one (one every {SAVE_STEPS} steps, {4 * SAVE_STEPS} of rounds)"
        f" that scores {ACCURACY:.0%} of the test split."
    )
    backup = f"With one backup the job has {kept or 0:.2f} of the speed of the same cluster without a slow worker."
    rounds = _rounds_report({name: runs for name, runs in record["modes"].items() if name in HALF})
    title = f"# Update modes with one slow worker of {WORKERS}, {record['date']}"
    return "\n".join(
        [title, "", machine.text(record["machine"]), "", about, "", markdown(head, rows), "", backup, "", rounds, ""]
    )


def _rounds_report(found: dict[str, list[dict[str, Any]]]) -> str:
    rates = {name: [one["examples_per_sec"] for one in runs] for name, runs in found.items()}
    first = next(iter(HALF))
    power = (WORKERS - 0.5) / WORKERS
    rows = []
    for name, some in rates.items():
        share = ratio_of_medians(some, rates[first]) or 0.0
        rows.append([name, spread_of(some).text(), f"{share / (1.0 if HALF[name].slower == 1 else power):.2f}"])
    about = (
        f"Rounds under sync, of at most 64 local steps and {ROUND_SECS:g} s, or of 32. One worker pauses twice as long,"
        f" which leaves the machines {power:.3f} of the power. The last column is the throughput over that."
    )
    return "\n".join([about, "", markdown(["workers", "examples/s", "of their power"], rows)])


def _spread(runs: list[dict[str, Any]], name: str) -> str:
    values = [one[name] for one in runs if one[name] is not None]
    return spread_of(values).text() if values else "-"

"""The tables of a comparison, from its record alone: what is stored can be reported again.

text = markdown_of(record)

The record is what `compare.py` writes as JSON; its form is described there.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import machine
from benchmarks.calibration import Calibration, overhead_secs
from benchmarks.plot import bars
from benchmarks.summary import Spread, best_of, disagreeing, ratio_of_medians, spread_of
from benchmarks.table import markdown
from benchmarks.targets import SINGLE, judge

_HEAD = ["contender", "examples/s", "x classic", "CPU s/1000 ex., ps", "workers", "ps memory MB", "test loss"]


def markdown_of(record: dict[str, Any], judged: bool = True) -> str:
    """`judged`: with the targets, which are for one machine."""
    options = record["options"]
    lines = [
        f"# Measured on {record['date']}",
        "",
        machine.text(record["machine"]) + f"; load average before: {record['load_before']}",
        "",
        f"{options['num_ps']} ps and {options['num_workers']} workers, {_rounds(record)} interleaved repeats of "
        f"{options['secs']:g} s each; medians (lowest-highest), and ratios of medians.",
    ]
    for name, workload in record["workloads"].items():
        lines += ["", f"## {name}: {workload['about']}", "", _table(workload), *_remarks(workload)]
    if record.get("calibration"):
        lines += ["", "## Bound", "", *_bounds(record)]
    found = [one for name, workload in record["workloads"].items() for one in judge(rates(workload), name)]
    if judged and found:
        head = ["workload", "ours", "against", "ratio", "target", "reached"]
        lines += ["", "## Targets", "", markdown(head, [one.cells() for one in found])]
    return "\n".join([*lines, ""])


def _rounds(record: dict[str, Any]) -> str:
    """How many were made, which are fewer than were asked for where a comparison was ended early."""
    counts = [len(runs) for workload in record["workloads"].values() for runs in workload["runs"].values()]
    made = sorted(set(counts) - {0}) or [0]
    return f"{made[0]}" if len(made) == 1 else f"{made[0]} to {made[-1]}"


def rates(workload: dict[str, Any]) -> dict[str, list[float]]:
    """Contender to the examples/s of its runs."""
    return {name: [run["examples_per_sec"] for run in runs] for name, runs in workload["runs"].items() if runs}


def _reference(name: str, workload: dict[str, Any]) -> list[float]:
    return rates(workload).get("classic-sync" if workload["updates"][name] == "sync" else "classic-async", [])


def _table(workload: dict[str, Any]) -> str:
    return markdown(_HEAD, [_row(name, runs, workload) for name, runs in workload["runs"].items()])


def _row(name: str, runs: list[dict[str, Any]], workload: dict[str, Any]) -> list[str]:
    loss = workload["losses"].get(name)
    shown_loss = "-" if loss is None else f"{loss:.3f}"
    if not runs:
        return [name, "failed", "-", "-", "-", "-", shown_loss]
    ratio = ratio_of_medians(rates(workload)[name], _reference(name, workload))
    peak = spread_of([run["ps_peak_bytes"] / 1e6 for run in runs]).median
    return [
        name,
        spread_of(rates(workload)[name]).text(),
        "-" if ratio is None else f"{ratio:.2f}",
        *(f"{spread_of([run['cpu_secs'][group] for run in runs]).median:.4f}" for group in ("ps", "workers")),
        f"{peak:.0f}",
        shown_loss,
    ]


def _remarks(workload: dict[str, Any]) -> list[str]:
    """What is not in the table: losses that disagree, failures, the best single process, skipped contenders."""
    lines = []
    for update in ("async", "sync"):
        alike = ("async", "none") if update == "async" else ("sync",)  # a synchronous step is of several batches
        losses = {name: x for name, x in workload["losses"].items() if workload["updates"][name] in alike}
        steps, tolerance = workload["check_steps"], workload["tolerance"]
        wrong = disagreeing(losses, tolerance)
        if wrong:
            lines.append(
                f"ERROR: after {steps} {update} steps the test losses of {', '.join(wrong)} are further than "
                f"{tolerance:.0%} from the median of all."
            )
        elif len(losses) > 1:
            lines.append(f"After {steps} {update} steps all test losses are within {tolerance:.0%} of their median.")
    single = best_of(rates(workload), SINGLE)
    if single:
        lines.append(f"Best single process: {single}.")
    lines += [f"FAILED: {name}: {_in_short(text)}" for name, text in workload["failures"].items()]
    lines += [f"Skipped: {name}: {reason}" for name, reason in workload["skipped"].items()]
    return [part for line in lines for part in ("", line)]


def _in_short(text: str) -> str:
    """What failed, and the last line that it printed, which is mostly the error."""
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(dict.fromkeys([lines[0], lines[-1]]))


def _bounds(record: dict[str, Any]) -> list[str]:
    """What a ps job on these cores can reach of one process's rate, by calibration, and what ours reaches of that."""
    found = Calibration(**record["calibration"])
    rows = []
    for name, workload in record["workloads"].items():
        single, ours = workload["runs"].get("single-2x1", []), workload["runs"].get("ours-async", [])
        if not single or not ours:
            continue
        per_example = statistics.median(run["cpu_secs"]["workers"] for run in single) / 1000
        compute = per_example * workload["batch_size"]
        added = overhead_secs(found, workload["parameters"])
        reached = ratio_of_medians(rates(workload)["ours-async"], rates(workload)["single-2x1"]) or 0.0
        spent = statistics.median(sum(run["cpu_secs"].values()) for run in ours) / 1000 * workload["batch_size"]
        row = [name, *(f"{1e3 * secs:.2f}" for secs in (compute, added, spent)), f"{compute / added:.2f}"]
        rows.append([*row, f"{compute / (compute + added):.2f}", f"{reached:.2f}", f"{(compute + added) / spent:.2f}"])
    head = ["workload", "C, ms", "O, ms", "ours, ms", "C/O", "E_max", "ours / single-2x1", "ours of the bound, by CPU"]
    costs = (
        f"CPU seconds of both sides: memcpy {found.memory * 1e9:.2f} ns/byte, loopback socket "
        f"{found.socket * 1e9:.2f} ns/byte, an empty run through a ps {found.run * 1e6:.0f} us, one more small tensor "
        f"{found.small_tensor * 1e6:.0f} us, a byte of a tensor of 1 MiB as TensorFlow sends it "
        f"{found.byte * 1e9:.2f} ns.  O = run + 2 small tensors + 8 P (socket + memcpy); E_max = C/(C+O); "
        "C, O and ours are CPU milliseconds of a step, ours of the bound is (C+O)/ours."
    )
    return [costs, "", markdown(head, rows)]


def plot_of(record: dict[str, Any]) -> str:
    """Examples/s over the classic recipe's median, contender by contender."""
    groups = {}
    for name, workload in record["workloads"].items():
        group = {}
        for contender, values in rates(workload).items():
            reference = _reference(contender, workload)
            if reference:
                by = spread_of(reference).median
                one = spread_of(values)
                group[contender] = Spread(one.median / by, one.low / by, one.high / by)
        if group:
            groups[name] = group
    return bars("examples/s against the classic recipe (async or sync) = 1", groups)

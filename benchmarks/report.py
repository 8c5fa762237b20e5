"""The tables of a comparison, from its record alone: what is stored can be reported again.

text = markdown_of(record)

The record is what `compare.py` writes as JSON; its form is described there.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import machine
from benchmarks.calibration import Calibration, overhead_secs
from benchmarks.contenders import OF_PYTORCH
from benchmarks.plot import bars
from benchmarks.summary import Spread, best_of, disagreeing, ratio_of_medians, spread_of
from benchmarks.table import markdown
from benchmarks.targets import SINGLE, judge

_HEAD = ["contender", "examples/s", "x classic", "CPU s/1000 ex., ps", "workers", "ps memory MB"]
_HEAD += ["memory of all MB", "x classic", "test loss"]


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
    found = [one for name, workload in record["workloads"].items() for one in judge(comparable_rates(workload), name)]
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


def comparable_rates(workload: dict[str, Any]) -> dict[str, list[float]]:
    """The rates of which ratios may be quoted: without those of contenders whose loss check failed."""
    unfit = {name for names in _disagreeing(workload).values() for name in names}
    if workload["losses"]:  # a check was made: a contender that did not finish it has failed it
        unfit |= workload["failures"].keys() - workload["losses"].keys()
    return {name: found for name, found in rates(workload).items() if name not in unfit}


def _losses(workload: dict[str, Any], update: str) -> dict[str, float]:
    """The losses that must agree; a synchronous step is of several batches."""
    alike = ("async", "none") if update == "async" else ("sync",)
    return {name: loss for name, loss in workload["losses"].items() if workload["updates"][name] in alike}


def _disagreeing(workload: dict[str, Any]) -> dict[str, list[str]]:
    """Update to the contenders whose losses disagree with the others."""
    tolerance = workload["tolerance"]
    return {update: disagreeing(_losses(workload, update), tolerance) for update in ("async", "sync")}


def _reference(name: str, workload: dict[str, Any]) -> list[float]:
    return comparable_rates(workload).get(_classic(name, workload), [])


def _classic(name: str, workload: dict[str, Any]) -> str:
    """Returns the classic recipe with which a contender is compared."""
    return "classic-sync" if workload["updates"][name] == "sync" else "classic-async"


def _table(workload: dict[str, Any]) -> str:
    return markdown(_HEAD, [_row(name, runs, workload) for name, runs in workload["runs"].items()])


def _row(name: str, runs: list[dict[str, Any]], workload: dict[str, Any]) -> list[str]:
    loss = workload["losses"].get(name)
    shown_loss = "-" if loss is None else f"{loss:.3f}"
    if not runs:
        return [name, "failed", *["-"] * (len(_HEAD) - 3), shown_loss]
    ratio = ratio_of_medians(comparable_rates(workload).get(name, []), _reference(name, workload))
    peak = spread_of([run["ps_peak_bytes"] / 1e6 for run in runs]).median
    return [
        name,
        spread_of(rates(workload)[name]).text(),
        "-" if ratio is None else f"{ratio:.2f}",
        *(f"{spread_of([run['cpu_secs'][group] for run in runs]).median:.4f}" for group in ("ps", "workers")),
        f"{peak:.0f}",
        *_memory(name, workload),
        shown_loss,
    ]


def _memory(name: str, workload: dict[str, Any]) -> list[str]:
    """The memory of all processes, and its ratio to the classic recipe's; an older record is without."""
    found, reference = (
        [run["resident_bytes"] / 1e6 for run in workload["runs"].get(one, []) if "resident_bytes" in run]
        for one in (name, _classic(name, workload))
    )
    ratio = ratio_of_medians(found, reference)
    return [f"{spread_of(found).median:.0f}" if found else "-", "-" if ratio is None else f"{ratio:.2f}"]


def _remarks(workload: dict[str, Any]) -> list[str]:
    """What is not in the table: losses that disagree, failures, the best single process, skipped contenders."""
    lines = []
    steps, tolerance = workload["check_steps"], workload["tolerance"]
    for update, wrong in _disagreeing(workload).items():
        if wrong:
            lines.append(
                f"ERROR: after {steps} {update} steps the test losses of {', '.join(wrong)} are further than "
                f"{tolerance:.0%} from the median of all: ratios to them are not given."
            )
        elif len(_losses(workload, update)) > 1:
            lines.append(f"After {steps} {update} steps all test losses are within {tolerance:.0%} of their median.")
    single = best_of(comparable_rates(workload), SINGLE)
    if single:
        lines.append(f"Best single process: {single}.")
    fit = comparable_rates(workload)
    for peer in (name for name in fit if name.partition(":")[0] in OF_PYTORCH):
        others = [name for name in fit if name != peer and workload["updates"][name] == "sync"]
        ratios = [f"{name} {ratio_of_medians(fit[name], fit[peer]):.2f}" for name in others]
        if ratios:
            lines.append(f"Examples/s, relative to {peer}: {', '.join(ratios)}.")
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
        fit = comparable_rates(workload)
        reached = ratio_of_medians(fit.get("ours-async", []), fit.get("single-2x1", []))
        if reached is None:
            continue
        compute, spent = (_cpu_secs(workload, contender) for contender in ("single-2x1", "ours-async"))
        added = overhead_secs(found, workload["parameters"])
        most = compute / (compute + added)
        row = [name, *(f"{1e3 * secs:.2f}" for secs in (compute, added, spent)), f"{compute / added:.2f}"]
        rows.append([*row, f"{most:.2f}", f"{reached:.2f}", f"{reached / most:.2f}"])
    head = ["workload", "C, ms", "O, ms", "ours, ms", "C/O", "E_max", "ours / single-2x1", "share of the bound"]
    costs = (
        f"CPU seconds of both sides: memcpy {found.memory * 1e9:.2f} ns/byte, loopback socket "
        f"{found.socket * 1e9:.2f} ns/byte, an empty run through a ps {found.run * 1e6:.0f} us, one more small tensor "
        f"{found.small_tensor * 1e6:.0f} us, a byte of a tensor of 1 MiB as TensorFlow sends it "
        f"{found.byte * 1e9:.2f} ns.  O = run + 2 small tensors + 8 P (socket + memcpy); E_max = C/(C+O); "
        "C, O and ours are CPU milliseconds of a step.  The share of the bound is the ratio of the rates over E_max."
    )
    return [costs, "", markdown(head, rows)]


def _cpu_secs(workload: dict[str, Any], contender: str) -> float:
    """CPU seconds of all processes for a batch, the median of the runs."""
    runs = workload["runs"][contender]
    return statistics.median(sum(run["cpu_secs"].values()) for run in runs) / 1000 * float(workload["batch_size"])


def plot_of(record: dict[str, Any]) -> str:
    """Examples/s over the classic recipe's median, contender by contender."""
    groups = {}
    for name, workload in record["workloads"].items():
        group = {}
        for contender, values in comparable_rates(workload).items():
            reference = _reference(contender, workload)
            if reference:
                by = spread_of(reference).median
                one = spread_of(values)
                group[contender] = Spread(one.median / by, one.low / by, one.high / by)
        if group:
            groups[name] = group
    return bars("examples/s against the classic recipe (async or sync) = 1", groups)

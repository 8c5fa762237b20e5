"""`python -m benchmarks status`: what an open status page costs a running job.

One job trains all the time.  In every second window a client asks for what an open page asks for.  Rates of windows in
one process differ less than those of two runs, and neighbours in time share the load of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

from benchmarks import machine, results
from benchmarks.processes import Processes, Program, Running
from benchmarks.run import START_SECS, step_of
from benchmarks.workloads import workload_class

_STATUS = "status   "
_EVERY_SECS = {"api/status": 2.0, "api/history": 5.0}
"""Paths that the page asks for, and how often."""


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "secs": options.secs, "rates": {}}
    record["load_before"] = machine.load_average()
    for name in options.workloads:
        record["rates"][name] = _rates(name, options)
    record["load_after"] = machine.load_average()
    text = report(record)
    results.store("status", record, text, "", options.results)
    print(text)
    return 0


def _rates(name: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Steps a second of each window, with the page closed and open by turns."""
    model = workload_class(name)
    flags = [f"--model={model.__module__}:{model.__name__}", f"--num_ps={options.num_ps}", "--log_secs=0.25"]
    flags += [f"--num_workers={options.num_workers}", f"--batch_size={model.batch_size}", "--max_steps=1000000000"]
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        command = [sys.executable, "-m", "ps_train", *flags, f"--model_dir={directory}/model"]
        job = processes.start(Program("job", command))
        address = job.wait_for(lambda line: line.text.startswith(_STATUS), START_SECS).text.removeprefix(_STATUS)
        job.wait_for(lambda line: step_of(line) >= model.warmup_steps, START_SECS)
        found: dict[str, list[float]] = {"closed": [], "open": []}
        for _ in range(options.repeats):
            for kind in found:
                with _page(address) if kind == "open" else contextlib.nullcontext():
                    found[kind].append(_rate(job, options.secs))
    return found


def _rate(job: Running, secs: float) -> float:
    job.take()
    begin = job.wait_for(lambda line: step_of(line) >= 0, START_SECS)
    end = job.wait_for(lambda line: step_of(line) >= 0 and line.time >= begin.time + secs, START_SECS)
    return (step_of(end) - step_of(begin)) / (end.time - begin.time)


@contextlib.contextmanager
def _page(address: str) -> Iterator[None]:
    """Asks for what an open page asks for."""
    closed = threading.Event()

    def ask(path: str, every: float) -> None:
        while not closed.wait(every):
            with contextlib.suppress(OSError), urllib.request.urlopen(address + path, timeout=every) as answer:
                answer.read()

    threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in _EVERY_SECS.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        closed.set()
        for thread in threads:
            thread.join(10.0)


def cost(rates: dict[str, list[float]]) -> tuple[float, float]:
    """The share of the rate that an open page costs, as the median over pairs of windows, and its standard error."""
    ratios = [1 - opened / closed for closed, opened in zip(rates["closed"], rates["open"], strict=True)]
    middle = statistics.median(ratios)
    spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in ratios)  # of a normal distribution
    return middle, 1.2533 * spread / len(ratios) ** 0.5


def report(record: dict[str, Any]) -> str:
    """Markdown."""
    lines = [f"# An open status page, {record['date']}", "", machine.text(record["machine"]), ""]
    for name, rates in record["rates"].items():
        share, error = cost(rates)
        median = {kind: statistics.median(values) for kind, values in rates.items()}
        pairs = len(rates["open"])
        lines.append(
            f"{name}: {median['closed']:.1f} steps/s with the page closed, {median['open']:.1f} with it open, in "
            f"{pairs} pairs of windows of {record['secs']:g} s. "
            f"The page costs {share:+.2%} (standard error {error:.2%})."
        )
    lines += ["", f"Load average before {record['load_before']:.1f}, after {record['load_after']:.1f}.", ""]
    return "\n".join(lines)

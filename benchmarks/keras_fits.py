"""`python -m benchmarks keras`: compiled Keras models on a ps and two workers, against what else trains them.

TensorFlow's ParameterServerStrategy needs tf-keras, with which alone it runs.  The same network as a `ps_train.Model`
tells what Keras costs.  For a large table, Keras in one process updates all rows at each step.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import statistics
import sys
import tempfile
from typing import Any

from benchmarks import machine, results
from benchmarks.errors import ContenderError
from benchmarks.processes import Processes, Program
from benchmarks.summary import ratio_of_medians, spread_of
from benchmarks.table import markdown
from tests.support.machine.ports import free_ports

FIT, MODEL, ALONE, TENSORFLOW = "fit", "model", "alone", "tensorflow"
RUNS = {"mlp": (FIT, MODEL, TENSORFLOW), "convnet": (FIT, MODEL, TENSORFLOW), "table": (FIT, ALONE)}
STEPS = {"mlp": 400, "convnet": 100, "table": 100}
WITHIN_SECS = 240.0


def run(options: argparse.Namespace) -> int:
    """Measures all workloads in interleaved rounds, and stores the result."""
    found: dict[str, dict[str, list[float]]] = {work: {one: [] for one in who} for work, who in RUNS.items()}
    for number in range(options.repeats):
        print(f"round {number + 1} of {options.repeats}", file=sys.stderr)
        for workload, contenders in RUNS.items():
            for contender in contenders:
                found[workload][contender].append(measure(contender, workload))
    record = {"date": results.today(), "machine": machine.machine(), "steps_per_sec": found}
    text = report(record)
    results.store("keras", record, text, "", options.results)
    print(text)
    return 0


def measure(contender: str, workload: str) -> float:
    """Returns the steps a second of one run: the median of its epochs but the first."""
    command = [sys.executable, "-m", "benchmarks.peers.keras_fit", contender, workload, str(STEPS[workload])]
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        if contender == TENSORFLOW:
            ports = [f"127.0.0.1:{port}" for port in free_ports(4)]
            cluster = {"ps": ports[:1], "worker": ports[1:3], "chief": ports[3:]}
            for job, index in (("ps", 0), ("worker", 0), ("worker", 1)):
                processes.start(Program(f"{job}:{index}", command, _environment(cluster, job, index)))
            program = Program("chief:0", command, _environment(cluster, "chief", 0))
        else:
            program = Program(contender, command)
        line = processes.start(program).wait_for(lambda one: one.text.startswith("rates "), WITHIN_SECS)
        rates = [float(rate) for rate in re.findall(r"[0-9.]+", line.text)]
    if not rates:
        raise ContenderError(f"{contender} on {workload} printed no rates")
    return statistics.median(rates)


def _environment(cluster: dict[str, list[str]], job: str, index: int) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": job, "index": index}}
    return {"TF_CONFIG": json.dumps(config), "TF_USE_LEGACY_KERAS": "1"}


def report(record: dict[str, Any]) -> str:
    """Returns the markdown of a record."""
    rows = []
    for workload, found in record["steps_per_sec"].items():
        for contender, rates in found.items():
            against = "" if contender == FIT else f"{ratio_of_medians(found[FIT], rates) or 0:.2f}"
            rows.append([workload, contender, spread_of(rates).text(), against])
    about = (
        "Steps a second of batches of 32 examples, Adam, a ps and two workers on this machine (`alone`: Keras in one "
        "process); medians (lowest - highest) of interleaved runs. `fit` is `ps_train.keras.fit`, `model` the same "
        "network as a `ps_train.Model`, `tensorflow` TensorFlow's ParameterServerStrategy with tf-keras. The last "
        "column is the ratio of `fit` to the row."
    )
    head = ["network", "contender", "steps/s", "fit against it"]
    title = f"# Keras models on parameter servers, {record['date']}"
    return "\n".join([title, "", machine.text(record["machine"]), "", about, "", markdown(head, rows), ""])

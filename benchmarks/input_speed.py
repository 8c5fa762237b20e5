"""`python -m benchmarks input`: rows per CPU second of each reader, against plain tf.data on the same rows.

Both sides shuffle among as many rows, make batches of the same size and read ahead.  Every run is a new session of this
process; both sides of all readers take turns.  CPU time counts all threads of the process, so that the work of other
programs on the machine matters little.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks import machine, results
from benchmarks.summary import ratio_of_medians, spread_of
from benchmarks.table import markdown

ROWS, BATCH, SHUFFLED = 40_000, 1024, 10_000
AT_LEAST = 0.9
SIDES = ("ours", "plain")
BY_HAND = ("Parquet, by hand", "Parquet, columns alone")
"""Readers whose plain side makes no tensors, and has no target."""

BESIDE = ("", "TFRecords", "Parquet")
"""Readers beside a training loop: none, one without Python, and one in Python."""

BATCHES_PER_SEC = 50
"""Batches that the reader beside a training loop gives."""


def run(options: argparse.Namespace) -> int:
    from benchmarks.readers import READERS, rows_of

    load = machine.load_average()
    found: dict[str, dict[str, list[dict[str, float]]]] = {name: {side: [] for side in SIDES} for name in READERS}
    steps: dict[str, list[dict[str, float]]] = {name: [] for name in BESIDE}
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(ROWS)
        for name, reader in READERS.items():
            (pathlib.Path(folder) / name).mkdir()
            reader.write(pathlib.Path(folder) / name, rows)
        for number in range(options.repeats):
            for name in READERS:
                for side in SIDES if number % 2 else reversed(SIDES):
                    measured = measure(name, side, pathlib.Path(folder) / name, options.secs)
                    found[name][side].append(measured)
                    rate = measured["rows"] / measured["cpu_secs"]
                    print(f"round {number + 1}  {name}  {side}  {rate:.0f} rows/CPU s", file=sys.stderr, flush=True)
            for name in BESIDE if number % 2 else reversed(BESIDE):
                steps[name].append(steps_beside(name, pathlib.Path(folder) / name, options.secs))
    record = {
        "date": results.today(),
        "machine": machine.machine(),
        "load_before": load,
        "load_after": machine.load_average(),
        "secs": options.secs,
        "readers": found,
        "steps_beside": steps,
    }
    text = report(record)
    results.store("input", record, text, "", options.results)
    print(text)
    return 0


def batches(name: str, side: str, directory: pathlib.Path, epochs: int, shuffled: int = SHUFFLED) -> tuple[Any, Any]:
    """Returns the features and labels of a batch in the current graph, and what to run first with its feeds."""
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    from benchmarks.readers import READERS
    from ps_train.data.data_shard import WHOLE
    from ps_train.data.pipeline import training_batches

    if side == "ours":
        made = training_batches(READERS[name].ours(directory), WHOLE, BATCH, epochs, shuffled)
        return (made.features, made.labels), (made.initializer, made.feeds(seed=1))
    examples, parse = READERS[name].plain(directory)
    dataset = examples.shuffle(shuffled, seed=1).repeat(epochs or None).batch(BATCH)
    if parse is not None:
        dataset = dataset.map(tf.autograph.experimental.do_not_convert(parse), num_parallel_calls=tf.data.AUTOTUNE)
    iterator = v1.data.make_initializable_iterator(dataset.prefetch(tf.data.AUTOTUNE))
    return iterator.get_next(), (iterator.initializer, {})


def measure(name: str, side: str, directory: pathlib.Path, secs: float) -> dict[str, float]:
    """Returns the rows, CPU seconds and wall seconds of at least `secs` CPU seconds, after one pass over the rows."""
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    from benchmarks.readers import READERS

    if side == "plain" and (by_hand := READERS[name].by_hand) is not None:
        made = by_hand(directory, BATCH, SHUFFLED)
        return _measured(lambda: next(made), secs)
    with tf.Graph().as_default():
        (_, labels), (initializer, feeds) = batches(name, side, directory, epochs=0)
        with v1.Session() as session:
            session.run(initializer, feeds)
            step = session.make_callable(labels)
            return _measured(lambda: len(step()), secs)


def _measured(step: Callable[[], int], secs: float) -> dict[str, float]:
    """Measures a function that makes a batch and returns its number of rows."""
    for _ in range(ROWS // BATCH):
        step()
    rows, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.process_time() - cpu < secs:
        for _ in range(4):
            rows += step()
    return {"rows": rows, "cpu_secs": time.process_time() - cpu, "secs": time.perf_counter() - wall}


def steps_beside(name: str, directory: pathlib.Path, secs: float) -> dict[str, float]:
    """Returns how fast a loop makes small steps while another thread of the process takes batches of a reader.

    A thread that waits for Python's lock waits for 5 ms, or as long as a call of another library holds the lock.

    Args:
      name: the reader; "" for none.
      directory: its files.
      secs: wall seconds to measure.

    Returns:
      The steps per second, and the 99th percentile of a step's milliseconds.
    """
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    over, beside = threading.Event(), None
    with tf.Graph().as_default():
        weights = v1.random_normal([256, 256])
        trained = tf.linalg.matmul(weights, weights).op
        if name:
            (_, labels), (initializer, feeds) = batches(name, "ours", directory, epochs=0)
        with v1.Session() as session:
            if name:
                session.run(initializer, feeds)
                take = session.make_callable(labels)
                take()
                beside = threading.Thread(target=_paced, args=(take, over), daemon=True)
                beside.start()
            step = session.make_callable(trained)
            step()
            times = [time.perf_counter()]
            while times[-1] - times[0] < secs:
                step()
                times.append(time.perf_counter())
            over.set()
            if beside is not None:
                beside.join()
    took = sorted(after - before for before, after in itertools.pairwise(times))
    return {"steps_per_sec": len(took) / (times[-1] - times[0]), "p99_ms": 1e3 * took[int(len(took) * 0.99)]}


def _paced(take: Callable[[], object], over: threading.Event) -> None:
    due = time.monotonic()
    while not over.wait(max(0.0, due - time.monotonic())):
        take()
        due = max(due + 1 / BATCHES_PER_SEC, time.monotonic() - 1.0)


def report(record: dict[str, Any]) -> str:
    """One row for each reader."""
    rows = []
    for name, sides in record["readers"].items():
        rates = {side: [run["rows"] / run["cpu_secs"] / 1e3 for run in runs] for side, runs in sides.items()}
        ratio = ratio_of_medians(rates["ours"], rates["plain"]) or 0.0
        cores = [statistics.median(run["cpu_secs"] / run["secs"] for run in sides[side]) for side in SIDES]
        figures = [*(spread_of(rates[side]).text() for side in SIDES), f"{ratio:.2f}"]
        verdict = "-" if name in BY_HAND else "yes" if ratio >= AT_LEAST else "NO"
        rows.append([name, *figures, verdict, *(f"{used:.1f}" for used in cores)])
    about = (
        f"Thousand rows per CPU second, in shuffled batches of {BATCH}: medians (lowest - highest) of "
        f"{len(sides['ours'])} interleaved runs of {record['secs']:g} CPU seconds, and the ratio of the medians. A row "
        "is a click of Criteo's width: a label, 13 integers and 26 categories. Plain tf.data shuffles single examples "
        "or lines, batches them, and parses whole batches in parallel calls; it has no reader of Parquet, and gets the "
        "rows of pyarrow from a generator. By hand: pyarrow and numpy, without TensorFlow. Columns alone: pyarrow "
        "makes an array of each column, nothing is shuffled or batched; it is the bound of every reader in Python."
    )
    head = ["reader", "ours", "plain tf.data", "ratio", f"at least {AT_LEAST:g}", "cores used, ours", "plain"]
    load = f"; load average before and after: {record['load_before']}, {record['load_after']}"
    title = f"# Rows per CPU second of each reader, {record['date']}"
    tables = [about, "", markdown(head, rows), "", *_report_beside(record["steps_beside"])]
    return "\n".join([title, "", machine.text(record["machine"]) + load, "", *tables, ""])


def _report_beside(steps: dict[str, list[dict[str, float]]]) -> list[str]:
    """Returns the lines about a training loop beside readers."""
    rates = {name: [run["steps_per_sec"] for run in runs] for name, runs in steps.items()}
    rows = [
        [
            name or "none",
            spread_of(rates[name]).text(),
            f"{ratio_of_medians(rates[name], rates['']) or 0.0:.2f}",
            spread_of([run["p99_ms"] for run in runs]).text(),
        ]
        for name, runs in steps.items()
    ]
    about = (
        f"Steps per second of a loop of small steps while a thread of the same process takes {BATCHES_PER_SEC} batches "
        "a second of a reader, and the 99th percentile of a step's milliseconds. TFRecords are read without Python; "
        "the Parquet reader needs Python's lock, as the training thread does."
    )
    return [about, "", markdown(["reader beside it", "steps/s", "of the steps alone", "p99 ms"], rows)]

"""`python -m benchmarks codec_cpu`: what a codec costs at the sender, at the receiver, and for residuals.

A vector is encoded and decoded in this process by one thread.  The least CPU time of several calls counts, less that of
a call which only makes the vector: what else runs on the machine slows a call, and nothing makes it faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.table import markdown

CODECS = ("bfloat16", "float16", "int8", "top_k:0.01", "top_k:0.01,int8")
LENGTHS = (1 << 20, 1 << 22)
"""Values of the vectors: a parcel of small variables, and one layer of `large`."""

ALLOWED_NS = 0.5
_CALLS = 40


def run(options: argparse.Namespace) -> int:
    nanoseconds = {length: {codec: measure(codec, length) for codec in CODECS} for length in LENGTHS}
    record = {"date": results.today(), "machine": machine.machine(), "nanoseconds": nanoseconds}
    text = report(record)
    results.store("codec-cpu", record, text, "", options.results)
    print(text)
    return 0


def measure(codec: str, length: int) -> dict[str, float]:
    """Returns CPU nanoseconds for a value: to encode it, to decode it, and to keep what was left out."""
    import tensorflow as tf
    import tensorflow.compat.v1 as v1

    from ps_train.engine.transport.codecs.feedback import ErrorFeedback
    from ps_train.engine.transport.coding import codec_of
    from ps_train.engine.variables.worker_state import collect_local_state

    chosen = codec_of(codec)
    with tf.Graph().as_default() as graph:
        seed = tf.constant([1, 2], tf.int64)
        source = v1.get_variable("source", [length], initializer=v1.random_normal_initializer(), use_resource=True)
        vector = source.read_value() * 1.5
        parts = chosen.encode(vector, seed)
        held = [
            v1.get_variable(f"part_{n}", initializer=part, use_resource=True, validate_shape=False)
            for n, part in enumerate(parts)
        ]
        decoded = chosen.decode([variable.read_value() for variable in held], length)
        kept_parts, kept = ErrorFeedback("residual", chosen, length).encode(vector, seed, tf.constant(True))
        with v1.Session(graph=graph, config=_one_thread()) as session:
            session.run([source.initializer, collect_local_state().initializers])
            session.run([variable.initializer for variable in held])
            made = _least(session, vector.op)
            encoding = _least(session, tf.group(*parts)) - made
            whole = _least(session, tf.group(*kept_parts, kept)) - made
            decoding = _least(session, decoded.op)
    return {name: secs / length * 1e9 for name, secs in _named(encoding, decoding, whole).items()}


def _named(encoding: float, decoding: float, whole: float) -> dict[str, float]:
    return {"encode": encoding, "decode": decoding, "residual": whole - encoding}


def _one_thread() -> Any:
    import tensorflow.compat.v1 as v1

    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # nothing is computed before it is measured
    return config


def _least(session: Any, operation: Any) -> float:
    call: Callable[[], Any] = session.make_callable(operation)
    return min(_cpu_secs(call) for _ in range(_CALLS))


def _cpu_secs(call: Callable[[], Any]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


def report(record: dict[str, Any]) -> str:
    """One row for each codec and length."""
    rows = [_row(codec, length, ns) for length, found in record["nanoseconds"].items() for codec, ns in found.items()]
    lines = [f"# CPU time of codecs, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"CPU nanoseconds for each value; at most {ALLOWED_NS:g} are wanted to encode and to decode.", ""]
    header = ["codec", "values", "encode", "decode", "residual", "holds"]
    return "\n".join([*lines, markdown(header, rows), ""])


def _row(codec: str, length: int, ns: dict[str, float]) -> Sequence[str]:
    holds = max(ns["encode"], ns["decode"]) <= ALLOWED_NS
    figures = [f"{ns[name]:.2f}" for name in ("encode", "decode", "residual")]
    return [codec, f"{length:,}", *figures, "yes" if holds else "no"]

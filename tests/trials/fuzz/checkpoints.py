"""Damaged checkpoints: bytes of real files are changed, and each is read in a process that may crash.

    count, problems = run_cases("checkpoint_index", 1000, seed=1)

A reading must end with values, or with DamagedCheckpointError or ModelError.  A reading that changes no byte of the
checked parts must give the saved values.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import random
import tempfile
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

KINDS = ("checkpoint_index", "checkpoint_data")
"""The file that is damaged."""

_FILES = {"checkpoint_index": "model.ckpt-7.index", "checkpoint_data": "model.ckpt-7.data-00000-of-00001"}
_NAME = "model.ckpt-7"
_SECS = 60.0
_BATCH = 500


def damaged(data: bytes, rand: random.Random) -> bytes:
    """Bytes of which some are others, missing or new."""
    found = bytearray(data)
    for _ in range(rand.choice((1, 1, 1, 2, 5))):
        at, size = rand.randrange(len(found) + 1), rand.choice((1, 1, 2, 8, 64))
        match rand.choice(("flip", "flip", "flip", "cut", "end", "insert", "zero", "ones")):
            case "flip" if at < len(found):
                found[at] ^= 1 << rand.randrange(8)
            case "cut":
                del found[at : at + size]
            case "end":
                del found[at:]
            case "insert":
                found[at:at] = rand.randbytes(size)
            case "zero":
                found[at : at + size] = bytes(len(found[at : at + size]))
            case "ones":
                found[at : at + size] = b"\xff" * len(found[at : at + size])
    return bytes(found)


def _values() -> dict[str, Any]:
    rand = np.random.default_rng(3)
    return {
        "w": rand.normal(size=(40, 3)).astype(np.float32),
        "b": np.arange(3, dtype=np.float64),
        "global_step": np.int64(7),
        "ps_train/examples": np.float64(99.0),
        **{f"layer{number}/kernel": rand.normal(size=(4, 4)).astype(np.float32) for number in range(4)},
    }


def _read(path: str, values: dict[str, Any]) -> str:
    """Reads a checkpoint as a job does; returns what was wrong with the outcome."""
    import tensorflow.compat.v1 as v1

    from ps_train.base.errors import DamagedCheckpointError, ModelError
    from ps_train.engine.run_directory import checkpoint_contents as contents

    with v1.Graph().as_default(), v1.Session() as session:
        variables = {key: v1.get_variable(key.replace("/", "_"), initializer=value) for key, value in values.items()}
        try:
            contents.examples_of(path)
            contents.CheckpointValues(path).restore(session, variables)
        except (DamagedCheckpointError, ModelError) as error:
            return "" if str(error).isprintable() and len(str(error)) < 2000 else f"not one line: {str(error)!r}"
        found = session.run(variables)
    wrong = [key for key, value in values.items() if not np.array_equal(found[key], value)]
    return f"other values of {wrong} without an error" if wrong else ""


def _child(kind: str, directory: str, seeds: range, results: Connection) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    values, intact = _values(), (pathlib.Path(directory) / _FILES[kind]).read_bytes()
    with tempfile.TemporaryDirectory() as own:
        for file in pathlib.Path(directory).iterdir():
            (pathlib.Path(own) / file.name).write_bytes(file.read_bytes())
        for seed in seeds:
            results.send((seed, None))
            (pathlib.Path(own) / _FILES[kind]).write_bytes(damaged(intact, random.Random(seed)))
            try:
                problem = _read(os.path.join(own, _NAME), values)
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error)[:200]}"
            results.send((seed, problem))
    results.send((-1, None))


def _write(directory: str) -> None:
    import tensorflow as tf

    values = _values()
    tf.raw_ops.SaveV2(
        prefix=os.path.join(directory, _NAME),
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )


def run_cases(kind: str, cases: int, seed: int) -> tuple[int, list[str]]:
    """Reads damaged checkpoints; returns how many, and the problems with their seeds."""
    problems, next_seed, end = [], seed, seed + cases
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        writer = context.Process(target=_write, args=(directory,))
        writer.start()
        writer.join(300)
        while next_seed < end:
            receiver, sender = context.Pipe(duplex=False)
            seeds = range(next_seed, min(end, next_seed + _BATCH))
            child = context.Process(target=_child, args=(kind, directory, seeds, sender))
            child.start()
            sender.close()
            next_seed, found = _follow(child, receiver, seeds)
            problems += found
    return cases, problems


def _follow(child: Any, receiver: Connection, seeds: range) -> tuple[int, list[str]]:
    """Returns the first seed that is still to be read, and the problems."""
    problems: list[str] = []
    current, secs = seeds.start, 300.0  # the import of TensorFlow is slow on a busy machine
    try:
        while receiver.poll(secs):
            current_seed, problem = receiver.recv()
            if current_seed < 0:
                child.join(30)
                return seeds.stop, problems
            current, secs = current_seed, _SECS
            if problem:
                problems.append(f"seed {current_seed}: {problem}")
        problems.append(f"seed {current}: no end within {secs:g}s")
    except EOFError:
        child.join(30)
        problems.append(f"seed {current}: the process ended with {child.exitcode}")
    child.kill()
    child.join()
    return current + 1, problems

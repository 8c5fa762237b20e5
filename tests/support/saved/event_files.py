"""Event files as an evaluation writes them."""

from __future__ import annotations

import itertools
import pathlib

import tensorflow as tf
import tensorflow.compat.v1 as v1

_numbers = itertools.count()


def write(directory: pathlib.Path, results: dict[int, dict[str, float]]) -> pathlib.Path:
    """Writes one event file with an event for each step, later in the order of names than others; returns its path."""
    before = set(directory.glob("*")) if directory.exists() else set()
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(directory), filename_suffix=f".{next(_numbers):06}")
        for step, metrics in results.items():
            values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
            writer.add_summary(v1.Summary(value=values), step)
        writer.close()
    (path,) = set(directory.glob("*")) - before
    return path

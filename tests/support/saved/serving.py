"""A SavedModel in a process of its own, in which this package cannot be imported."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np

SERVE = """
import sys
sys.modules["ps_train"] = None  # whoever imports it fails
import numpy as np, tensorflow as tf
given = dict(np.load("features.npz"))
signatures = tf.saved_model.load(sys.argv[1]).signatures
raw = signatures["serving_default"](**{name: tf.constant(value) for name, value in given.items()})
def feature(value):
    value = np.atleast_1d(value)
    if value.dtype.kind == "S":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(one) for one in value.ravel()]))
    if value.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=value.ravel()))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value.ravel()))
def example(i):
    features = tf.train.Features(feature={name: feature(values[i]) for name, values in given.items()})
    return tf.train.Example(features=features).SerializeToString()
examples = [example(i) for i in range(len(next(iter(given.values()))))]
parsed = signatures["examples"](examples=tf.constant(examples))
np.savez("served.npz", **{f"raw_{n}": v for n, v in raw.items()}, **{f"parsed_{n}": v for n, v in parsed.items()})
"""


def served(directory: pathlib.Path, features: dict[str, np.ndarray], export: str = "export/1") -> dict[str, np.ndarray]:
    """What both signatures of an export in the directory return: `raw_<name>` and `parsed_<name>`."""
    np.savez(directory / "features.npz", **features)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", SERVE, str(directory / export)]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(np.load(directory / "served.npz"))

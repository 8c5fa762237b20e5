"""Stands in for tensorflow_datasets: `load` gives the examples of files made beforehand.

    datasets, info = load("mnist", with_info=True, as_supervised=True)      # MADE_DATA/mnist.npz
    train, test = load("mnist", split=["train[:80%]", "train[80%:]"])

MADE_DATA is the environment variable that names their folder.
"""

import os
import re
import types

import numpy as np
import tensorflow as tf


class Split:
    """Names of splits."""

    TRAIN, TEST = "train", "test"


def disable_progress_bar():
    """Does nothing: no bar is shown."""


def load(name, split=None, with_info=False, as_supervised=False, batch_size=None, **ignored):
    """Returns the datasets of a file, with the arguments of the library."""
    del ignored
    with np.load(os.path.join(os.environ["MADE_DATA"], f"{name.partition('/')[0].partition(':')[0]}.npz")) as file:
        made = dict(file)
    parts = {part: _columns(made, part) for part in ("train", "test")}
    asked = list(parts) if split is None else [split] if isinstance(split, str) else list(split)
    found = [_dataset(parts, each, as_supervised, batch_size) for each in asked]
    result = dict(zip(asked, found, strict=True)) if split is None else found[0] if isinstance(split, str) else found
    splits = {part: types.SimpleNamespace(num_examples=len(parts[part]["label"])) for part in parts}
    classes = types.SimpleNamespace(num_classes=int(parts["train"]["label"].max()) + 1, int2str=str)
    info = types.SimpleNamespace(splits=splits, features={"label": classes})
    return (result, info) if with_info else result


def _columns(made, part):
    """Returns a part's arrays by the names of the library's features."""
    images, labels = made[f"x_{part}"], made[f"y_{part}"].reshape(-1).astype(np.int64)
    return {"image": images[..., None] if images.ndim == 3 else images, "label": labels}


def _dataset(parts, split, as_supervised, batch_size):
    name, first, last = re.fullmatch(r"(\w+)(?:\[(\d*)%?:(\d*)%?\])?", split).groups()
    columns = parts[name]
    count = len(columns["label"])
    chosen = slice(count * int(first or 0) // 100, count * int(last or 100) // 100)
    columns = {key: values[chosen] for key, values in columns.items()}
    dataset = tf.data.Dataset.from_tensor_slices(tuple(columns.values()) if as_supervised else columns)
    return dataset.batch(batch_size) if batch_size else dataset

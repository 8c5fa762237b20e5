"""What a program without TensorFlow needs of a workload, in one file: its data, its network and its rule.

    write(load("small"), "small.npz")       # in the benchmark's process
    handover = read("small.npz")            # in a peer

TensorFlow and PyTorch disturb each other in one process, so nothing here imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.workloads.base import Workload

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer of a network.

    Attributes:
      kind: "dense", "relu", or "residual", which adds `share` of a rectified dense layer to what it gets.
      inputs, outputs: of dense and residual layers.
      share: of residual layers.
    """

    kind: str
    inputs: int = 0
    outputs: int = 0
    share: float = 1.0


@dataclasses.dataclass(frozen=True)
class Network:
    """A network as data.

    Attributes:
      layers: from the first on.
      tables: rows of the table of each column of ids; empty: the features are numbers.
      dimension: of a row of a table.
    """

    layers: tuple[Layer, ...]
    tables: tuple[int, ...] = ()
    dimension: int = 0


@dataclasses.dataclass(frozen=True)
class Handover:
    """A workload as data."""

    network: Network
    batch_size: int
    optimizer: str
    learning_rate: float
    features: Array
    labels: Array
    test_features: Array
    test_labels: Array


def write(workload: Workload, path: str) -> None:
    """Writes a workload that has a network."""
    assert workload.network is not None
    about = {
        "network": dataclasses.asdict(workload.network),
        "batch_size": workload.batch_size,
        "optimizer": workload.default_optimizer,
        "learning_rate": workload.default_learning_rate,
    }
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about))}
    for split, prefix in (("train", ""), ("test", "test_")):
        data = workload.data(split, "")
        arrays |= {f"{prefix}features": data.features, f"{prefix}labels": data.labels}
    np.savez(path, **arrays)


def read(path: str, index: int = 0, count: int = 1) -> Handover:
    """Returns what `write` has written, of the training data only the `index`-th of `count` shares."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name in ("features", "labels"):
        arrays[name] = arrays[name][index::count].copy()
    about = json.loads(str(arrays.pop("about")))
    network = about.pop("network")
    layers = tuple(Layer(**layer) for layer in network["layers"])
    return Handover(Network(layers, tuple(network["tables"]), network["dimension"]), **about, **arrays)


def perceptron(inputs: int, hidden: tuple[int, ...], outputs: int) -> tuple[Layer, ...]:
    """Returns the layers of `ps_train.models.layers.perceptron`."""
    layers: list[Layer] = []
    for width in hidden:
        layers += [Layer("dense", inputs, width), Layer("relu")]
        inputs = width
    return (*layers, Layer("dense", inputs, outputs))


def residuals(width: int, count: int) -> tuple[Layer, ...]:
    """Returns the layers of `workloads.residual.residual_layers`."""
    return (Layer("residual", width, width, count**-0.5),) * count

"""What the PyTorch peers share: ranks that meet over gloo, data of a file, layers, rules, and the loop.

    arguments, handover = start("PyTorch DDP over gloo.")
    train(arguments, handover, model, optimizer)

Rank 0's address is where the ranks meet.  One thread a rank.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from benchmarks.peers.handover import Handover, Layer, read
from benchmarks.peers.speech import Marks, parse, say_test_loss

ACCUMULATOR = 0.1
"""First value of Adagrad's accumulators, TensorFlow's default."""


def start(description: str) -> tuple[argparse.Namespace, Handover]:
    """Joins the ranks; returns the arguments, and the workload with this rank's share of the training data."""
    if "tensorflow" in sys.modules:
        sys.exit("TensorFlow is in a process of PyTorch, where both may fail: this program must not import it.")
    arguments = parse(description)
    torch.set_num_threads(max(1, arguments.threads))
    hosts, rank = arguments.worker_hosts.split(","), arguments.task_index
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{hosts[0]}", rank=rank, world_size=len(hosts))
    return arguments, read(arguments.handover, rank, len(hosts))


def layers_of(layers: Sequence[Layer]) -> Any:
    """Returns the layers as a module, with TensorFlow's initial values."""

    class Residual(torch.nn.Module):
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            self.dense, self.share = _dense(layer), layer.share

        def forward(self, features: Any) -> Any:
            return features + self.share * torch.relu(self.dense(features))

    makers = {"dense": _dense, "relu": lambda layer: torch.nn.ReLU(), "residual": Residual}
    return torch.nn.Sequential(*(makers[layer.kind](layer) for layer in layers))


def _dense(layer: Layer) -> Any:
    module = torch.nn.Linear(layer.inputs, layer.outputs)
    torch.nn.init.xavier_uniform_(module.weight)
    torch.nn.init.zeros_(module.bias)
    return module


def optimizer_of(handover: Handover, parameters: Any) -> Any:
    """Returns the workload's rule for dense parameters."""
    rate = handover.learning_rate
    if handover.optimizer == "adam":
        return torch.optim.Adam(parameters, rate)
    if handover.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, rate, initial_accumulator_value=ACCUMULATOR)
    return torch.optim.SGD(parameters, rate, momentum=0.9 if handover.optimizer == "momentum" else 0.0)


def train(arguments: argparse.Namespace, handover: Handover, model: Any, optimizer: Any) -> None:
    """Makes the steps, and says the test loss at the end."""
    rank = arguments.task_index
    marks, batches = Marks(), _batches(handover, seed=rank)
    for step in range(1, arguments.max_steps + 1):
        features, labels = next(batches)
        optimizer.zero_grad(set_to_none=True)
        _loss(model(features), labels).backward()
        optimizer.step()
        if rank == 0:
            marks.at(step)
    with torch.no_grad():  # in all ranks, since each may hold a part of the model
        loss = _loss(model(torch.from_numpy(handover.test_features)), torch.from_numpy(handover.test_labels))
    if rank == 0:
        say_test_loss(float(loss))
    torch.distributed.destroy_process_group()


def _loss(outputs: Any, labels: Any) -> Any:
    if labels.is_floating_point():  # clicks
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs.squeeze(1), labels)
    return torch.nn.functional.cross_entropy(outputs, labels)


def _batches(handover: Handover, seed: int) -> Iterator[tuple[Any, Any]]:
    """Endless batches, each pass in a new random order."""
    features, labels = torch.from_numpy(handover.features), torch.from_numpy(handover.labels)
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(labels), generator=generator)
        for rows in order.split(handover.batch_size):
            if len(rows) == handover.batch_size:
                yield features[rows], labels[rows]

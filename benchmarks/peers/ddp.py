"""PyTorch DistributedDataParallel over gloo: the synchronous peer without a ps.

TensorFlow is imported with the workload, which makes the data, and does no work here.

    python -m benchmarks.peers.ddp --workload=small --task_index=0 --worker_hosts=a:1,b:2

Rank 0's address is where the ranks meet.  One thread a rank, gradients as views of the buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from benchmarks.peers.speech import Marks, parse, say_test_loss
from benchmarks.workloads import load
from benchmarks.workloads.base import Workload


def main() -> None:
    arguments = parse("PyTorch DDP over gloo.")
    torch.set_num_threads(max(1, arguments.threads))
    hosts, rank = arguments.worker_hosts.split(","), arguments.task_index
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{hosts[0]}", rank=rank, world_size=len(hosts))
    workload = load(arguments.workload)
    module = workload.torch_module()
    module.apply(_initialise)
    model = DistributedDataParallel(module, gradient_as_bucket_view=True)
    optimizer = _optimizer(workload, model.parameters())
    marks, batches = Marks(), _batches(workload, rank, len(hosts))
    for step in range(1, arguments.max_steps + 1):
        features, labels = next(batches)
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(model(features), labels).backward()
        optimizer.step()
        if rank == 0:
            marks.at(step)
    if rank == 0:
        test = workload.data("test", "")
        with torch.no_grad():
            loss = cross_entropy(module(torch.from_numpy(test.features)), torch.from_numpy(test.labels))
        say_test_loss(float(loss))


def _batches(workload: Workload, rank: int, ranks: int) -> Iterator[tuple[Any, Any]]:
    """Endless batches of this rank's share, each pass in a new random order."""
    arrays = workload.data("train", "")
    inputs: Any
    targets: Any
    inputs, targets = arrays.features, arrays.labels  # one array each, not several by name
    features, labels = torch.from_numpy(inputs[rank::ranks]), torch.from_numpy(targets[rank::ranks])
    generator = torch.Generator().manual_seed(rank)
    while True:
        order = torch.randperm(len(labels), generator=generator)
        for rows in order.split(workload.batch_size):
            if len(rows) == workload.batch_size:
                yield features[rows], labels[rows]


def _initialise(module: Any) -> None:
    if isinstance(module, torch.nn.Linear):
        torch.nn.init.xavier_uniform_(module.weight)
        torch.nn.init.zeros_(module.bias)


def _optimizer(workload: Workload, parameters: Any) -> Any:
    rate = workload.default_learning_rate
    if workload.default_optimizer == "adam":
        return torch.optim.Adam(parameters, rate)
    return torch.optim.SGD(parameters, rate, momentum=0.9 if workload.default_optimizer == "momentum" else 0.0)


if __name__ == "__main__":
    main()

"""TorchRec over gloo on CPUs: tables divided among the ranks, and a perceptron in each of them.

    python -m benchmarks.peers.torchrec_tables --workload=lookup --handover=lookup.npz --worker_hosts=a:1,b:2

Tables are updated in the backward pass, and gradients of the perceptron averaged by DistributedDataParallel.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torchrec  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.handover import Handover
from benchmarks.peers.torch_parts import ACCUMULATOR, layers_of, optimizer_of, start, train


class Clicks(torch.nn.Module):
    """A table for each column of ids, and layers on their rows."""

    def __init__(self, handover: Handover) -> None:
        super().__init__()
        network = handover.network
        self._columns = [f"column{number}" for number in range(len(network.tables))]
        configs = [
            torchrec.EmbeddingBagConfig(
                name=f"table{number}",
                embedding_dim=network.dimension,
                num_embeddings=rows,
                feature_names=[self._columns[number]],
                init_fn=lambda values: torch.nn.init.uniform_(values, -0.05, 0.05),
            )
            for number, rows in enumerate(network.tables)
        ]
        self.tables = torchrec.EmbeddingBagCollection(device=torch.device("meta"), tables=configs)
        self.layers = layers_of(network.layers)

    def forward(self, ids: Any) -> Any:
        """Returns the logits [n, 1] of ids [n, columns]."""
        lengths = torch.ones(ids.numel(), dtype=torch.int64)
        by_column = torchrec.KeyedJaggedTensor(self._columns, ids.t().reshape(-1), lengths=lengths)
        return self.layers(self.tables(by_column).values())


def main() -> None:
    """Trains as one rank."""
    arguments, handover = start("TorchRec over gloo.")
    hosts = arguments.worker_hosts.split(",")
    # TorchRec plans by these, as if all ranks were on one machine.
    os.environ |= {"LOCAL_RANK": str(arguments.task_index), "LOCAL_WORLD_SIZE": str(len(hosts))}
    model = Clicks(handover)
    rule = {"lr": handover.learning_rate}
    torchrec.optim.apply_optimizer_in_backward(torch.optim.Adagrad, model.tables.parameters(), rule)
    divided = torchrec.distributed.DistributedModelParallel(model, device=torch.device("cpu"))
    for state in divided.fused_optimizer.state_dict()["state"].values():
        for accumulators in state.values():
            for shard in accumulators.local_shards():
                shard.tensor.fill_(ACCUMULATOR)
    dense = dict(torchrec.optim.optimizers.in_backward_optimizer_filter(divided.named_parameters()))
    train(arguments, handover, divided, optimizer_of(handover, list(dense.values())))


if __name__ == "__main__":
    main()

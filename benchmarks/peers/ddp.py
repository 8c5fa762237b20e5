"""PyTorch DistributedDataParallel over gloo: the synchronous peer without a ps.

    python -m benchmarks.peers.ddp --workload=small --handover=small.npz --task_index=0 --worker_hosts=a:1,b:2

Gradients are views of the buckets.
"""

from __future__ import annotations

import torch

from benchmarks.peers.torch_parts import layers_of, optimizer_of, start, train


def main() -> None:
    """Trains as one rank."""
    arguments, handover = start("PyTorch DDP over gloo.")
    model = torch.nn.parallel.DistributedDataParallel(layers_of(handover.network.layers), gradient_as_bucket_view=True)
    train(arguments, handover, model, optimizer_of(handover, model.parameters()))


if __name__ == "__main__":
    main()

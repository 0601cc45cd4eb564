"""The network of ``train.py`` with PyTorch: DistributedDataParallel over gloo, on CPU."""

from __future__ import annotations

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from train import load_digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")  # reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world} is ready", flush=True)

    images, labels, test_images, test_labels = (torch.from_numpy(part) for part in load_digits())
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, world, rank, seed=7)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.9)
    for epoch in range(1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        for batch, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(batch), target)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        accuracy = (network(test_images).argmax(dim=1) == test_labels).float().mean().item()
    if rank == 0:
        print(f"test accuracy {accuracy:.4f} on {len(test_labels)} images that were not trained on", flush=True)
    leave()


def leave() -> None:
    """Wait for the other processes, and end this one with success.

    The threads of PyTorch's process group outlive ``destroy_process_group``, and on a busy machine they may abort the
    process while the interpreter shuts down (pytorch/pytorch#179291): a finished training would look failed.
    """
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

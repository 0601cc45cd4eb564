"""``train_ddp.py`` for workers that come and go: torchrun starts it again, and it continues from the last epoch."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from train import load_digits
from train_ddp import leave


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each epoch")
    parser.add_argument("--checkpoint", type=Path, required=True, help="file in a folder that all workers see")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels, test_images, test_labels = (torch.from_numpy(part) for part in load_digits())
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, world, rank, seed=7)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.9)
    done = 0
    if arguments.checkpoint.exists():
        state = torch.load(arguments.checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
    print(f"rank {rank} of {world} begins after epoch {done}", flush=True)

    for epoch in range(done + 1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        for batch, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(batch), target)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} with {world} workers  loss {loss.item():.4f}", flush=True)
            keep(arguments.checkpoint, epoch, network, optimizer)
        time.sleep(arguments.pause)
    with torch.no_grad():
        accuracy = (network(test_images).argmax(dim=1) == test_labels).float().mean().item()
    if rank == 0:
        print(f"test accuracy {accuracy:.4f} on {len(test_labels)} images that were not trained on", flush=True)
    leave()


def keep(file: Path, epoch: int, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write the state under another name first: a process that is killed while it writes leaves the last one whole."""
    state = {"epoch": epoch, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, file.with_suffix(".tmp"))
    file.with_suffix(".tmp").rename(file)


if __name__ == "__main__":
    main()

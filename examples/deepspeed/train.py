"""DeepSpeed trains a small network on handwritten digits, with ZeRO stage 1, on as many processes as the job starts.

On a machine without GPUs it computes on the processors, with Gloo.
"""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import deepspeed
import deepspeed.ops
import numpy as np
import torch

EPOCHS = 5
DIGITS = Path(__file__).parent.parent / "digits" / "digits.csv.gz"
CONFIG = {
    "train_micro_batch_size_per_gpu": 32,
    "optimizer": {"type": "Adam", "params": {"lr": 0.005, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


def main() -> None:
    # An operator for processors of one machine, which would be compiled for a minute at the first start.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    for name in ("RANK", "LOCAL_RANK", "SIZE"):  # as mpirun says them
        if (said := os.environ.get(f"OMPI_COMM_WORLD_{name}")) is not None:
            os.environ.setdefault("WORLD_SIZE" if name == "SIZE" else name, said)
    deepspeed.init_distributed()
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    total = torch.tensor([float(rank)])
    torch.distributed.all_reduce(total)
    print(f"rank {rank} of {size}; ranks add up to {int(total)}", flush=True)
    with gzip.open(DIGITS, "rt") as file:
        rows = np.array(list(csv.reader(file)), dtype=np.float32)
    rows = np.random.default_rng(7).permutation(rows)
    images, labels = torch.from_numpy(rows[:, :64] / 16), torch.from_numpy(rows[:, 64].astype(np.int64))
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    batch = engine.train_micro_batch_size_per_gpu()
    for epoch in range(EPOCHS):
        for at in range(1400 // (batch * size)):
            part = slice((at * size + rank) * batch, (at * size + rank + 1) * batch)
            loss = torch.nn.functional.cross_entropy(engine(images[part]), labels[part])
            engine.backward(loss)
            engine.step()
        if rank == 0:
            print(f"epoch {epoch + 1}  loss {loss.item():.4f}", flush=True)
    if rank == 0:
        found = engine(images[1400:]).argmax(dim=1)
        print(f"test accuracy {(found == labels[1400:]).float().mean().item():.4f}", flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

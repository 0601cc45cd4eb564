"""Data-parallel training with MindSpore on the processors: each worker takes its part of the digits.

Shows that the workers found each other: all of them print the same sum of their ranks, and the same loss.
"""

from __future__ import annotations

import csv
import gzip
import os
import socket
import time
from pathlib import Path

import numpy as np
from mindspore import Tensor, context, nn, ops
from mindspore.communication import get_group_size, get_rank, init

EPOCHS, BATCH = 5, 64
DIGITS = Path(__file__).parent.parent / "digits" / "digits.csv.gz"


def main() -> None:
    os.environ["MS_SCHED_HOST"] = address_of(os.environ["MS_SCHED_HOST"])
    context.set_context(mode=context.PYNATIVE_MODE, device_target="CPU")
    init()
    rank, size = get_rank(), get_group_size()
    add = ops.AllReduce()
    print(f"rank {rank} of {size}; ranks add up to {int(add(Tensor([float(rank)])).asnumpy()[0])}", flush=True)
    with gzip.open(DIGITS, "rt") as file:
        rows = np.array(list(csv.reader(file)), dtype=np.float32)
    rows = np.random.default_rng(7).permutation(rows)
    images, labels = rows[:, :-1] / 16, rows[:, -1].astype(np.int32)
    train_images, train_labels = images[:1400], labels[:1400]
    model = nn.SequentialCell(nn.Dense(64, 64), nn.ReLU(), nn.Dense(64, 10))
    for parameter in model.get_parameters():  # all begin alike, whatever the seed of a worker
        parameter.set_data(Tensor(same(parameter.shape)))
    loss_of, optimizer = nn.CrossEntropyLoss(), nn.Adam(model.trainable_params(), 0.005)
    forward = lambda x, y: loss_of(model(x), y)  # noqa: E731
    step = ops.value_and_grad(forward, None, optimizer.parameters)
    per_epoch = len(train_images) // (BATCH * size)
    for epoch in range(EPOCHS):
        for at in range(per_epoch):
            part = slice((at * size + rank) * BATCH, (at * size + rank + 1) * BATCH)
            loss, gradients = step(Tensor(train_images[part]), Tensor(train_labels[part]))
            optimizer(tuple(add(gradient) / size for gradient in gradients))
        if rank == 0:
            print(f"epoch {epoch + 1}  loss {float(loss.asnumpy()):.4f}", flush=True)
    if rank == 0:
        found = model(Tensor(images[1400:])).asnumpy().argmax(axis=1)
        print(f"test accuracy {float((found == labels[1400:]).mean()):.4f}", flush=True)


def address_of(host: str) -> str:
    """MindSpore wants a number; the name of a pod is known once it has an address."""
    for _ in range(60):
        try:
            return socket.gethostbyname(host)
        except OSError:
            time.sleep(1)
    raise SystemExit(f"{host} has no address")


def same(shape: tuple[int, ...]) -> np.ndarray:
    return (np.random.default_rng(1).standard_normal(shape) * (2 / shape[-1]) ** 0.5).astype(np.float32)


if __name__ == "__main__":
    main()

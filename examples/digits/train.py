"""Data-parallel training of a small network on handwritten digits, with NumPy and TCP alone.

Every process of the gang holds the same network and its own share of the data. In each step it computes the gradient of
its share; rank 0 collects all gradients over TCP, averages them and sends the mean back: all networks stay equal.
The environment is PyTorch's (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE), set by the Job's ``pytorch`` plug-in.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

Array = np.ndarray


def load_digits() -> tuple[Array, Array, Array, Array]:
    """Training images and labels, then test images and labels; pixels scaled to 0..1."""
    with gzip.open(Path(__file__).parent / "digits.csv.gz", "rt") as file:
        rows = np.array([[float(cell) for cell in row] for row in csv.reader(file)], dtype=np.float32)
    rows = np.random.default_rng(7).permutation(rows)
    images, labels = rows[:, :64] / 16.0, rows[:, 64].astype(np.int64)
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


class Network:
    """64 pixels, 64 hidden units (ReLU), 10 classes (softmax); all weights in one flat vector."""

    def __init__(self, seed: int = 1) -> None:
        random = np.random.default_rng(seed)
        self.weights = random.normal(0, 0.1, 64 * 64 + 64 + 64 * 10 + 10).astype(np.float32)
        self.w1 = self.weights[:4096].reshape(64, 64)
        self.b1 = self.weights[4096:4160]
        self.w2 = self.weights[4160:4800].reshape(64, 10)
        self.b2 = self.weights[4800:]

    def logits(self, images: Array) -> tuple[Array, Array]:
        hidden = np.maximum(images @ self.w1 + self.b1, 0)
        return hidden @ self.w2 + self.b2, hidden

    def gradient(self, images: Array, labels: Array) -> tuple[float, Array]:
        """Mean cross-entropy and its gradient as one flat vector."""
        logits, hidden = self.logits(images)
        shifted = logits - logits.max(axis=1, keepdims=True)
        probabilities = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        loss = -np.log(probabilities[np.arange(len(labels)), labels] + 1e-9).mean()
        error = probabilities
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        back = (error @ self.w2.T) * (hidden > 0)
        parts = (images.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0))
        return float(loss), np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def accuracy(self, images: Array, labels: Array) -> float:
        return float((self.logits(images)[0].argmax(axis=1) == labels).mean())


def receive(connection: socket.socket, size: int) -> Array:
    buffer = bytearray(size * 4)
    view, got = memoryview(buffer), 0
    while got < len(buffer):
        count = connection.recv_into(view[got:])
        if count == 0:
            raise ConnectionError("a member of the gang closed its connection")
        got += count
    return np.frombuffer(buffer, dtype=np.float32)


class Group:
    """All-reduce over a star: every rank sends to rank 0, which answers with the mean."""

    def __init__(self, rank: int, world: int, address: str, port: int) -> None:
        self.rank, self.world = rank, world
        if rank == 0:
            with socket.create_server(("", port), backlog=world) as server:
                server.settimeout(120)
                self.peers = [server.accept()[0] for _ in range(world - 1)]
        else:
            self.peers = [connect(address, port)]
        for peer in self.peers:
            peer.settimeout(120)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def mean(self, vector: Array) -> Array:
        if self.rank != 0:
            self.peers[0].sendall(vector.tobytes())
            return receive(self.peers[0], len(vector))
        total = vector.copy()
        for peer in self.peers:
            total += receive(peer, len(vector))
        total /= self.world
        for peer in self.peers:
            peer.sendall(total.tobytes())
        return total

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


def connect(address: str, port: int, patience: float = 120.0) -> socket.socket:
    """Connect to rank 0, which may start later than this process."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((address, port), timeout=10)
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"rank 0 does not answer at {address}:{port}: {error}") from error
            time.sleep(0.1)


@contextmanager
def gang() -> Iterator[Group]:
    environment = os.environ
    group = Group(
        int(environment.get("RANK", "0")),
        int(environment.get("WORLD_SIZE", "1")),
        environment.get("MASTER_ADDR", "127.0.0.1"),
        int(environment.get("MASTER_PORT", "23456")),
    )
    try:
        yield group
    finally:
        group.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32, help="images per process and step")
    parser.add_argument("--rate", type=float, default=0.2)
    arguments = parser.parse_args()

    images, labels, test_images, test_labels = load_digits()
    network, momentum = Network(), np.float32(0.9)
    with gang() as group:
        print(f"rank {group.rank} of {group.world} is ready", flush=True)
        mine = np.arange(group.rank, len(images) - len(images) % group.world, group.world)
        velocity = np.zeros_like(network.weights)
        for epoch in range(1, arguments.epochs + 1):
            order = np.random.default_rng(epoch).permutation(mine)
            losses = []
            for start in range(0, len(order), arguments.batch):
                batch = order[start : start + arguments.batch]
                loss, gradient = network.gradient(images[batch], labels[batch])
                velocity = momentum * velocity - np.float32(arguments.rate) * group.mean(gradient)
                network.weights += velocity
                losses.append(loss)
            if group.rank == 0 and (epoch % 5 == 0 or epoch == 1):
                print(
                    f"epoch {epoch:3d}  loss {np.mean(losses):.4f}  "
                    f"accuracy {network.accuracy(test_images, test_labels):.4f}",
                    flush=True,
                )
        checksum = group.mean(network.weights)
        if not np.allclose(checksum, network.weights, atol=1e-5):
            raise SystemExit("the networks of the gang have drifted apart")
    if group.rank == 0:
        print(
            f"test accuracy {network.accuracy(test_images, test_labels):.4f} "
            f"on {len(test_labels)} images that were not trained on",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Functions that tests send to pods."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Point:
    x: int
    y: int


def place(scale: int, *, offset: int = 0) -> tuple[int, int, int]:
    print(f"rank {os.environ['RANK']} speaks")
    return int(os.environ["RANK"]) * scale + offset, int(os.environ["WORLD_SIZE"]), os.getpid()


def moved(point: Point) -> Point:
    return Point(point.x + 1, point.y)


def square(number: int) -> int:
    return number * number


def even_only(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


def fails_on_one() -> None:
    if os.environ["RANK"] == "1":
        raise KeyError("lost")


def vanishes() -> None:
    os._exit(7)


def huge() -> bytes:
    return os.urandom(5 * 1024 * 1024)


def large() -> bytes:
    return bytes(range(256)) * 4000 + os.urandom(300_000)


def unpicklable() -> Any:
    return lambda: None


def total() -> int:
    """A sum over the gang, by way of the address that each rank is given."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank:
        while True:
            try:
                with socket.create_connection(address, timeout=30) as peer:
                    peer.sendall(bytes([rank]))
                    return peer.recv(1)[0]
            except ConnectionRefusedError:
                continue
    with socket.create_server(("", address[1])) as server:
        peers = [server.accept()[0] for _ in range(size - 1)]
        result = sum(peer.recv(1)[0] for peer in peers)
        for peer in peers:
            peer.sendall(bytes([result]))
            peer.close()
    return result


def interrupted(folder: str) -> str:
    """Hangs at the first attempt, and ends at the second."""
    started = Path(folder, f"started-{os.environ['RANK']}")
    if not started.exists():
        started.touch()
        threading.Event().wait()
    return "again"

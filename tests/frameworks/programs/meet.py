"""Forms a group by the environment of a framework, as the framework would: every process meets every other.

Usage: ``meet.py tensorflow|jax|paddle|xgboost``. The first process listens at the address that the environment names;
the others say who they are; everybody is told the whole group.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

PATIENCE = 60.0


def read_line(link: socket.socket) -> str:
    return link.makefile("r", encoding="utf-8").readline().strip()


def reach(host: str, port: int) -> socket.socket:
    """Connect as soon as the other listens and its name is known."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((host, port), timeout=PATIENCE)
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"{host}:{port} is not there: {error}") from None
            time.sleep(0.05)


def lead(host: str, port: int, me: str, size: int) -> list[str]:
    """Be the first process: wait for all others and tell everybody who is there."""
    with socket.create_server((host, port)) as server:
        server.settimeout(PATIENCE)
        links = [server.accept()[0] for _ in range(size - 1)]
        group = sorted([me, *(read_line(link) for link in links)])
        for link in links:
            link.sendall((json.dumps(group) + "\n").encode())
            link.close()
    return group


def follow(host: str, port: int, me: str) -> list[str]:
    with reach(host, port) as link:
        link.sendall(f"{me}\n".encode())
        group: list[str] = json.loads(read_line(link))
    return group


def meet(host: str, port: int, me: str, size: int, *, first: bool) -> list[str]:
    return lead("", port, me, size) if first else follow(host, port, me)


def tensorflow() -> list[str]:
    """Every task listens at its own address of the cluster; the first of all leads."""
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    members = [
        (role, index, at) for role, all_at in sorted(config["cluster"].items()) for index, at in enumerate(all_at)
    ]
    own = config["cluster"][task["type"]][task["index"]]
    host, _, port = members[0][2].rpartition(":")
    me = f"{task['type']}-{task['index']} at {own}"
    return meet(host, int(port), me, len(members), first=members[0][2] == own)


def jax() -> list[str]:
    rank, size = int(os.environ["PROCESS_ID"]), int(os.environ["NUM_PROCESSES"])
    host, port = os.environ["COORDINATOR_ADDRESS"], int(os.environ["COORDINATOR_PORT"])
    return meet(host, port, f"process {rank}", size, first=rank == 0)


def paddle() -> list[str]:
    """Who can bind the master's address is the master, as in paddle.distributed.launch."""
    host, _, port = os.environ["PADDLE_MASTER"].rpartition(":")
    size, me = int(os.environ["PADDLE_NNODES"]), os.environ["HOSTNAME"]
    return meet(host, int(port), me, size, first=os.environ.get("POD_IP_DUMMY") == host)


def xgboost() -> list[str]:
    """The way of LightGBM and of older XGBoost: WORKER_ADDRS and ranks, no library."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert len(os.environ["WORKER_ADDRS"].split(",")) == size - 1
    return meet(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), f"rank {rank}", size, first=rank == 0)


WAYS = {"tensorflow": tensorflow, "jax": jax, "paddle": paddle, "xgboost": xgboost}
print("group:", *WAYS[sys.argv[1]](), sep=" | ", flush=True)

"""Sums squares on a Ray cluster of three nodes, and stays until the file ``done`` is there."""

from __future__ import annotations

import time
from pathlib import Path

import ray

ray.init(address="auto", log_to_driver=False)
while len(nodes := [node for node in ray.nodes() if node["Alive"]]) < 3:
    time.sleep(0.1)
print("nodes:", *sorted(node["NodeManagerAddress"] for node in nodes), flush=True)


@ray.remote(scheduling_strategy="SPREAD", num_cpus=1)
def squares(first: int, last: int) -> int:
    return sum(number * number for number in range(first, last))


parts = ray.get([squares.remote(250 * chunk, 250 * (chunk + 1)) for chunk in range(4)])
print("sum of squares:", sum(parts), flush=True)
while not Path(__file__).with_name("done").exists():
    time.sleep(0.1)

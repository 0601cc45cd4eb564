"""Sums the squares of a million numbers in 16 parts, on all nodes of the Ray cluster that this job is."""

from __future__ import annotations

import os
import time

import ray

ray.init(address="auto", log_to_driver=False)
wanted = 1 + int(os.environ["VC_WORKER_NUM"])
while sum(node["Alive"] for node in ray.nodes()) < wanted:
    time.sleep(0.2)
print(f"the cluster has {wanted} nodes", flush=True)


@ray.remote(scheduling_strategy="SPREAD")
def squares(first: int, last: int) -> tuple[str, int]:
    return ray.util.get_node_ip_address(), sum(number * number for number in range(first, last))


size = 1_000_000 // 16
parts = ray.get([squares.remote(size * part, size * (part + 1)) for part in range(16)])
nodes = sorted({node for node, _ in parts})
print(f"the sum is {sum(part for _, part in parts)}, computed on {', '.join(nodes)}", flush=True)

"""Sums squares on all nodes of the Ray cluster that it was submitted to.

Usage: ``squares.py NODES [fail]``: how many nodes to wait for; with the second word it ends with code 7.
"""

from __future__ import annotations

import sys
import time

import ray

ray.init()


@ray.remote(scheduling_strategy="SPREAD", num_cpus=1)
def square(number: int) -> int:
    return number * number


while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    time.sleep(0.1)
print("nodes:", sum(node["Alive"] for node in ray.nodes()), flush=True)
print("sum of squares:", sum(ray.get([square.remote(number) for number in range(20)])), flush=True)
sys.exit(7 if "fail" in sys.argv[1:] else 0)

"""Sums squares on the Ray cluster that it was submitted to; with the word ``fail`` it ends with code 7 instead."""

from __future__ import annotations

import sys

import ray

ray.init()


@ray.remote(scheduling_strategy="SPREAD", num_cpus=1)
def square(number: int) -> int:
    return number * number


print("nodes:", sum(node["Alive"] for node in ray.nodes()), flush=True)
print("sum of squares:", sum(ray.get([square.remote(number) for number in range(20)])), flush=True)
sys.exit(7 if "fail" in sys.argv[1:] else 0)

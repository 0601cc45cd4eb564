"""Adds up one number of each process with JAX's own collective; the addresses are those that the job's kind gives."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp

rank = int(os.environ.get("PROCESS_ID") or os.environ["JAX_PROCESS_ID"])
size = int(os.environ.get("NUM_PROCESSES") or os.environ["JAX_NUM_PROCESSES"])
address = os.environ.get("JAX_COORDINATOR_ADDRESS")
if address is None:
    address = f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}"
jax.distributed.initialize(address, size, rank)

mine = jnp.full((jax.local_device_count(),), float(rank + 1))
total = jax.pmap(lambda value: jax.lax.psum(value, "all"), axis_name="all")(mine)
print(f"process {jax.process_index()} of {jax.process_count()}: the sum is {int(total[0])}", flush=True)
jax.distributed.shutdown()

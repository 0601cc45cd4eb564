"""Every rank gives a number, and every rank gets the sum of all."""

from __future__ import annotations

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"rank {world.rank} of {world.size} on {MPI.Get_processor_name()}: the sum is {total}", flush=True)

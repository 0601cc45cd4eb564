"""The simulator: recorded or generated workloads on a virtual clock, decided by the engine of the running scheduler."""

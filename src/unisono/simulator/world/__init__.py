"""The simulated world: an event heap, jobs that run and end, and cycles of the engine."""

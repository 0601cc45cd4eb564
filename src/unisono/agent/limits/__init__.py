"""Limits that the agent itself enforces, by measuring: memory, storage, disk pressure."""

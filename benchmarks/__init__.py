"""Measurements of Unisono; ``python -m benchmarks`` prints one table."""

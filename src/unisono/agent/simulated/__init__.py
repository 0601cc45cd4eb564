"""Simulated nodes, which run no processes."""

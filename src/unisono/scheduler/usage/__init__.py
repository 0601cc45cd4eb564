"""Measured load of nodes: sources of metrics, and the collector that asks them."""

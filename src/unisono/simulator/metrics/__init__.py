"""Metrics of a run, each with its definition."""

"""Forecasts: when pending jobs start, and what a change of the cluster would do, from the live state."""

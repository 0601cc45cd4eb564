"""Reads the scheduler's configuration file, strictly."""

"""Addresses, names and ports of pods."""

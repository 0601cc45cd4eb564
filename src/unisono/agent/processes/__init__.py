"""Processes of containers: command lines, users, and the shims that start them."""

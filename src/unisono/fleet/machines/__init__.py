"""Machines that may come in members, and who is promised them."""

"""Devices of this machine, and which pod has them."""

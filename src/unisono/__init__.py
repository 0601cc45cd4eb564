"""Unisono: batch and AI scheduling for Kubernetes, with one engine on one machine, on a cluster and in a simulator."""

__version__ = "0.1.0"

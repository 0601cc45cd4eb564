"""Talking to any Kubernetes API server: client protocol, informers, work queue, leader election, events."""

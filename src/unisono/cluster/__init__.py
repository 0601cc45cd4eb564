"""Cluster state as arrays, pure: nodes, resources, pod classes, jobs and queues."""

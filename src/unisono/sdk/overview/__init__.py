"""A control plane at a glance: its parts, nodes and queues."""

"""Queues: the two that always exist, their states, and their hierarchy."""

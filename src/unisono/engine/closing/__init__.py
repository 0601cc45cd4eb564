"""The end of a cycle: checks decisions, and writes statuses, conditions, messages and metrics."""

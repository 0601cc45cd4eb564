"""``report`` and ``sacct``: questions about the history, and tables of the answers."""

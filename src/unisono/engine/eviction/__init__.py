"""Makes room for waiting jobs: which pods could be evicted, which of them are, and for whom."""

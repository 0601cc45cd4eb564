"""Objects on disk and in memory: one writer, one counter of versions, the history that watches read."""

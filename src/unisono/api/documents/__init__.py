"""JSON documents: whether two are equal, what changed from one to another, and patches of all kinds (pure)."""

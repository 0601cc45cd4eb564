"""Verdicts: what would start a waiting job, tried on a copy of the cluster before it is said."""

"""Studies: runs over policies, seeds and workloads, and what tells them apart."""

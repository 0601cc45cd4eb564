"""Places the waiting tasks of a job, on all nodes or within the domains that its topology allows."""

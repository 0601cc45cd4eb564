"""What ran here: jobs and their use of resources, kept beyond restarts and beyond the objects themselves."""

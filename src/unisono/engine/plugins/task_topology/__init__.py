"""task-topology: tasks of one job that belong together, or apart."""

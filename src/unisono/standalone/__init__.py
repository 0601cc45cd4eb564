"""One machine: API server, scheduler, controllers and agents composed into one process, or into two."""

"""Changes that let a job start: what is offered, what is tried on a copy of the cluster until the job runs."""

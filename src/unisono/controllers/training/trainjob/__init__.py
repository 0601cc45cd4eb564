"""TrainJob: a runtime and what the job changes in it become a JobSet."""

"""History from Prometheus: what its samples of the scheduler's metrics can answer, with its bounds."""

"""One node of the cluster: this machine with its processes, or simulated nodes."""

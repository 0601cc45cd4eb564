"""One node: this machine with real processes, or simulated nodes."""

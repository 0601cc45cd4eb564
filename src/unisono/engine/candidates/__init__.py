"""Which nodes could take a pod, and with which score, kept up to date from placement to placement."""

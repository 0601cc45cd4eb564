"""Ray: clusters of a head and workers as one gang, and jobs on them."""

"""What ``unisono run`` consists of: what to run, where, following it, and how it ended."""

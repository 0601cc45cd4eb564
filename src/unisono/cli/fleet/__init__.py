"""What ``unisono fleet`` does."""

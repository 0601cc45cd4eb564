"""What `unisono simulate` prints and shows."""

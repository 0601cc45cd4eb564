"""How jobs of every kind are doing, read from their objects."""

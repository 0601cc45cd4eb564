"""What ResourceQuotas count, and of which objects (pure)."""

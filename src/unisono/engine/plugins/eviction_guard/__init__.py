"""eviction-guard: bounds how often and at what loss pods are evicted."""

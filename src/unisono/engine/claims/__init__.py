"""Device claims (dynamic resource allocation with structured parameters): selectors, devices of nodes, allocation."""

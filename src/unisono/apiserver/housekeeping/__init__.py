"""What runs by itself on the store: garbage collection, emptying of namespaces, expiry of events."""

"""Members of a hub: joining, the connection to each, what it has, and its status."""

"""Many clusters as one: a hub sees its members' nodes, decides with the same engine, and dispatches whole jobs."""

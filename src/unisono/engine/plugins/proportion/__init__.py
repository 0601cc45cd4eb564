"""proportion: divides the cluster among queues by weight."""

"""capacity: shares of queues in plain amounts."""

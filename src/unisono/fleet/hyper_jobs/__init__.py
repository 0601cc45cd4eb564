"""HyperJobs of a hub: parts in several members that start together or not at all."""

"""The running scheduler: watches feed the cluster state, the engine decides, writers bind and report."""

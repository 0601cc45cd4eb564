"""What plug-ins implement: the hooks, by what they are asked about, and the switches that turn them off."""

"""One container: its process, probes, hooks and end."""

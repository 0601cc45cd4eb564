"""Following jobs on a server: changes of what they are, and their log lines."""

"""The dashboard: views of a cluster for people, served to a page in their browser with their own rights."""

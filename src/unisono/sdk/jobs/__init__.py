"""Jobs from Python: what is built, submitted and steered."""

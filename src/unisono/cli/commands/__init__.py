"""One module per command, each with a click command named ``command``."""

"""Jobs of a hub and their copies in members: what is decided about them, without any I/O."""

"""What clients ask of stored objects: read, watch, write, patch, apply, scale, delete, bind, evict."""

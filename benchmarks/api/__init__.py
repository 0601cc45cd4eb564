"""How fast the embedded API is, over HTTPS from another process, beside raw SQLite on the same disk."""

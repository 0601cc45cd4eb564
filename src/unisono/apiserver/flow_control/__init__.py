"""What one request may take of the server: bounds of sizes and depths, and turns of long work."""

"""What the page is told, as structs, and the pure functions that make it from objects."""

"""Objects that a server accepts and that are as hostile as it lets them be, and what they do to other users."""

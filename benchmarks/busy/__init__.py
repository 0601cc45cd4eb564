"""A busy cluster on virtual time: what is allocated, what limits would allow, and who waits though there is room."""

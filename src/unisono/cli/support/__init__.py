"""What ``unisono support-bundle`` collects, and how it is cleaned of secrets."""

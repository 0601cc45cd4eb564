"""What a user with the role ``edit`` in one namespace can do to a user of another one, attack by attack."""

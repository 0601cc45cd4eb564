"""Why jobs wait, fail or do not begin: what is known of an object, put together to one answer."""

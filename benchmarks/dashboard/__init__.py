"""The dashboard before a large cluster: how soon it shows what, and what that costs."""

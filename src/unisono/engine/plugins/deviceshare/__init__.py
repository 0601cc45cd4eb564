"""deviceshare: which card of a node holds which share of which pod, as arrays over nodes and cards."""

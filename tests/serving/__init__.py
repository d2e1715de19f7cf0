"""A real server with a tiny model of our own making."""

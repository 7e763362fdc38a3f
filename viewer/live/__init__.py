"""Live updates of open pages: what notifies a socket, and what it then sends."""

"""WebSocket consumers: send a page the current state, then each change."""

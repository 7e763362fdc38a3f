"""Share links: making, listing and revoking them, and the pages that they lead to."""

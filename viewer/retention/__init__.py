"""How much Forkline stores itself, and removing what is old. Locations are never touched."""

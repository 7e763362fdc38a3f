"""Sandboxes: the sandbox and limits in which the programs of a project run on this machine."""

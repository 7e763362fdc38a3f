"""Every patch to CrewAI's globals, one file each; nothing outside this folder assigns to them.

Each file's docstring has four fields: what it patches, the versions of CrewAI that it applies to, why, and
the test that fails without it. ``apply`` installs the patch for the life of the process.
"""

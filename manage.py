#!/usr/bin/env python
"""Django's command line for Forkline."""

import os
import sys


def main() -> None:
    """Run a management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
    from checkpoint_site.command import run

    run(sys.argv)


if __name__ == "__main__":
    main()

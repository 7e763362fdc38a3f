"""Run every battery, and say whether all of them hold."""

import sys

from battery import killed_writers

if __name__ == "__main__":
    sys.exit(killed_writers.main())

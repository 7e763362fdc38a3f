"""The starts and claims of ``quality.fuzz.quotas``, with the rows in PostgreSQL."""

import sys

from quality.cluster.database import used_server
from quality.fuzz.quotas import attack

if __name__ == "__main__":
    with used_server():
        sys.exit(attack("PostgreSQL"))

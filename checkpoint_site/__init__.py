"""The Django project. Importing it chooses the SQLite library of this process."""

from checkpoint_site.sqlite_library import use_one_recent_sqlite

use_one_recent_sqlite()

"""The Django project. Importing it settles which SQLite this process uses."""

from checkpoint_site.sqlite_library import use_one_recent_sqlite

use_one_recent_sqlite()

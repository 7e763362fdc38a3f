"""The database backend named in ``DATABASES``."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db.backends.sqlite3 import base

from viewer.data_folder import permissions


class DatabaseWrapper(base.DatabaseWrapper):
    """Opens the database. Once this process has opened it, never creates it again."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection. Raise OperationalError if the file is missing.

        SQLite alone would create an empty file.
        """
        path = str(conn_params["database"])
        if permissions.is_remembered() and Path(path).is_absolute():
            conn_params = {**conn_params, "database": f"file:{quote(os.fsencode(path))}?mode=rw", "uri": True}
        return super().get_new_connection(conn_params)

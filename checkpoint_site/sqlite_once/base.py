"""The module that Django looks for in a database's ENGINE."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db.backends.sqlite3 import base

from viewer.data_folder import identity


class DatabaseWrapper(base.DatabaseWrapper):
    """Opens a file that is there, once this process has opened it before."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises OperationalError where the file is gone; SQLite alone would make an empty one."""
        path = str(conn_params["database"])
        if identity.is_remembered() and Path(path).is_absolute():
            conn_params = {**conn_params, "database": f"file:{quote(path)}?mode=rw", "uri": True}
        return super().get_new_connection(conn_params)

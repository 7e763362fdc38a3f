"""The real settings, with a temporary data folder per process."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Read when the settings are imported, and inherited by the processes that a test starts.
TEST_FOLDER = Path(tempfile.mkdtemp(prefix="forkline-tests-")).resolve()
os.environ["DATA_DIR"] = str(TEST_FOLDER / "data")
# Never the database of whoever runs the tests. With ``make test-postgresql``, each process has its own.
for name in ("DATABASE_URL", "DATABASE_DIRECT_URL", "BUCKET_URL"):
    os.environ.pop(name, None)
SERVER = os.environ.get("FORKLINE_TEST_SERVER", "")
TEMPLATE_DATABASE, OWN_DATABASE = "forkline_empty", f"forkline_{os.getpid()}"
if SERVER:
    os.environ["DATABASE_URL"] = f"{SERVER} dbname={OWN_DATABASE}"
    # A worker whose database others share opens nothing else.
    os.environ["CHECKPOINT_ROOTS"] = str(Path(tempfile.gettempdir()).resolve())
atexit.register(shutil.rmtree, TEST_FOLDER, ignore_errors=True)

from scripts.catalogues.compiling import compile_catalogues  # noqa: E402

compile_catalogues()

from checkpoint_site.settings import *  # noqa: E402, F403
from checkpoint_site.settings import ALLOWED_ORIGINS, DATA_DIR, DATABASES  # noqa: E402, F401
from viewer.sqlite_pragmas import ON_CONNECT  # noqa: E402

if SERVER:
    # Tests of several hosts have a database of their own.
    IS_DATABASE_SHARED = False
else:
    # No test needs its rows after a power failure.
    DATABASES["default"]["OPTIONS"]["init_command"] = f"{ON_CONNECT} PRAGMA synchronous=OFF;"

# Requests to the host travel as bytes, as to another machine.
HOST = "tests.host_in_bytes.answer"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHECKPOINT_ROOTS = [Path(tempfile.gettempdir()).resolve()]
# Only the tests of prewarming enable it, so that no test depends on an earlier one.
PREWARM = False
# Each test client loads the middleware, which would list all static files every time.
WHITENOISE_AUTOREFRESH = True
# The host that Django's test client requests.
ALLOWED_ORIGINS.append("http://testserver")

# Tests translate messages to German with catalogues of their own.
LANGUAGES = [("en", "English"), ("de", "German")]

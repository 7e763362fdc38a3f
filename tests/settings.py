"""The settings under test: the real ones, on a data folder of their own that goes with the process."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# The settings read it when they are imported, and the children that a test starts inherit it.
TEST_FOLDER = Path(tempfile.mkdtemp(prefix="forkline-tests-")).resolve()
os.environ["DATA_DIR"] = str(TEST_FOLDER / "data")
atexit.register(shutil.rmtree, TEST_FOLDER, ignore_errors=True)

from checkpoint_site.settings import *  # noqa: E402, F403
from checkpoint_site.settings import ALLOWED_ORIGINS, DATA_DIR, DATABASES  # noqa: E402

# A real file, at the same place as without tests: children with the ordinary settings find it there.
DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "forkline.sqlite3")}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHECKPOINT_ROOTS = [Path(tempfile.gettempdir()).resolve()]
# Only the tests of a warm start have processes wait: no other is to depend on which ran before it.
PREWARM = False
# What Django's test client asks for.
ALLOWED_ORIGINS.append("http://testserver")

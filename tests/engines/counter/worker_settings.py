"""The settings of a worker that knows the counter."""

from checkpoint_site.settings import *  # noqa: F403
from tests.engines import counter
from viewer.engines import ENGINES

ENGINES[counter.NAME] = counter.PACKAGE
PREWARM = False

"""The request that a runner reads, by its former name."""

from viewer.engines.runner_request import *  # noqa: F403

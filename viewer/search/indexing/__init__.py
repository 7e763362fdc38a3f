"""Index the texts of checkpoints in the background, incrementally and in bounded steps."""

from viewer.search.indexing.background import indexing_in_background
from viewer.search.indexing.steps import index_some, progress

__all__ = ["index_some", "indexing_in_background", "progress"]

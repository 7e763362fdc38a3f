"""Names, stars, labels and notes of runs, branches and checkpoints."""

from viewer.annotations.annotating import AnnotatedObject, annotate, annotation_of
from viewer.annotations.finding import (
    RunAnnotations,
    annotations_in,
    annotations_of_runs,
    labelled,
    labels_in_use,
    named,
    starred,
)

__all__ = [
    "AnnotatedObject",
    "RunAnnotations",
    "annotate",
    "annotation_of",
    "annotations_in",
    "annotations_of_runs",
    "labelled",
    "labels_in_use",
    "named",
    "starred",
]

"""Names, stars, labels and notes of runs, branches and checkpoints."""

from viewer.annotations.annotating import (
    AnnotatedObject,
    AnnotationChanged,
    annotate,
    annotation_of,
    joined_labels,
    versions_of,
)
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
    "AnnotationChanged",
    "RunAnnotations",
    "annotate",
    "annotation_of",
    "annotations_in",
    "annotations_of_runs",
    "joined_labels",
    "labelled",
    "labels_in_use",
    "named",
    "starred",
    "versions_of",
]

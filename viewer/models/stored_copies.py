"""The stored copies of checkpoints."""

from django.db import models

from viewer.models.runs import Checkpoint


class StoredCopy(models.Model):
    """The stored copy of a checkpoint, redacted and compressed. It remains after its source is pruned.

    If a person deleted the copy, ``data`` is empty. The other columns remain, since lineage and usage of the
    run are computed from them. They hold ids of events, tokens and times, but no contents.
    """

    checkpoint = models.OneToOneField(
        Checkpoint, primary_key=True, on_delete=models.CASCADE, related_name="stored_copy"
    )
    data = models.BinaryField()
    # Sixteen bytes for each event of the record, oldest first. Unrecorded parents are inferred from them.
    event_ids = models.BinaryField(default=bytes)
    # The model calls among the events, and the stretches in which the run worked (stores/model_calls.py).
    calls = models.JSONField(default=list)
    sessions = models.JSONField(default=list, db_default=[])
    # The keyed digest of the row that it was read from. Empty for a file, whose fingerprint suffices.
    source_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    # The fingerprint of the checkpoint when it was copied, if its location is only indexed: pages show the
    # source of such a checkpoint for as long as it can be read.
    fingerprint = models.CharField(max_length=200, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"{self.pk}: {len(self.data)} bytes"

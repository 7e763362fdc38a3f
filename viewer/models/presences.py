"""Which people have a run open, for web servers that share a database."""

from django.conf import settings
from django.db import models


class Presence(models.Model):
    """A person who has a run open on a web server, which renews the row until the page is closed."""

    run_uid = models.UUIDField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # Chosen by each web server when it starts.
    server = models.UUIDField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run_uid", "user", "server"], name="unique_presence")]

    def __str__(self) -> str:
        return f"{self.user}: {self.run_uid}"

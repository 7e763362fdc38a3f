from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def record_hosts(apps: Any, schema_editor: Any) -> None:
    """Record for each job that was claimed that the host of its location did so."""
    location = apps.get_model("viewer", "Location").objects.filter(pk=models.OuterRef("location"))
    claimed = apps.get_model("viewer", "Job").objects.exclude(started_at=None)
    claimed.update(host=models.Subquery(location.values("host")))


class Migration(migrations.Migration):
    dependencies = [("viewer", "0007_bucket_objects")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="host",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="jobs",
                to="viewer.host",
            ),
        ),
        migrations.RunPython(record_hosts, migrations.RunPython.noop),
    ]

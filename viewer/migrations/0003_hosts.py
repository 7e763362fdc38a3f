from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def add_default_host(apps: Any, schema_editor: Any) -> None:
    """Add the host of all locations and projects so far. Its worker names the machine when it registers."""
    apps.get_model("viewer", "Host").objects.create(pk=DEFAULT_KEY, name="default")
    # A number that was given does not advance PostgreSQL's sequence.
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SELECT setval(pg_get_serial_sequence('viewer_host', 'id'), %s)", [DEFAULT_KEY])


DEFAULT_KEY = 1


class Migration(migrations.Migration):
    dependencies = [("viewer", "0002_remove_queue_entries")]

    operations = [
        migrations.CreateModel(
            name="Host",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("instance", models.CharField(blank=True, default="", max_length=400)),
                ("address", models.CharField(blank=True, default="", max_length=300)),
                ("version", models.CharField(blank=True, default="", max_length=50)),
                ("python_version", models.CharField(blank=True, default="", max_length=50)),
                ("engines", models.JSONField(blank=True, default=dict)),
                ("folders", models.JSONField(blank=True, default=list)),
                ("slots", models.PositiveIntegerField(default=0)),
                ("load", models.FloatField(blank=True, null=True)),
                ("seen_at", models.DateTimeField(blank=True, null=True)),
                ("is_up", models.BooleanField(default=False)),
                ("clock_difference", models.FloatField(blank=True, null=True)),
                ("is_drained", models.BooleanField(default=False)),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.RunPython(add_default_host, migrations.RunPython.noop),
        migrations.AddField(
            model_name="project",
            name="host",
            field=models.ForeignKey(
                default=DEFAULT_KEY,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="projects",
                to="viewer.host",
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="location",
            name="host",
            field=models.ForeignKey(
                default=DEFAULT_KEY,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="locations",
                to="viewer.host",
            ),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="location", name="path", field=models.CharField(max_length=1000)
        ),
        migrations.AddConstraint(
            model_name="location",
            constraint=models.UniqueConstraint(fields=("host", "path"), name="unique_path_of_host"),
        ),
    ]

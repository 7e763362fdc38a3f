"""Rename columns to terms that fit every engine, and mark the checkpoints of open-ended kinds."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# The only open-ended kind of the engines up to here.
OPEN_ENDED = "flow"


def mark_open_ended(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Store for each checkpoint what an import would store now."""
    apps.get_model("viewer", "Checkpoint").objects.filter(entity=OPEN_ENDED).update(is_open_ended=True)


def rename_in_requests(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Rename the key of the store's kind in the requests of jobs."""
    for job in apps.get_model("viewer", "Job").objects.only("pk", "request").iterator():
        location = job.request.get("location")
        if isinstance(location, dict) and "provider" in location:
            location["store_kind"] = location.pop("provider")
            job.save(update_fields=["request"])


class Migration(migrations.Migration):
    dependencies = [("viewer", "0013_one_row_of_day_limits")]

    operations = [
        migrations.RenameField("run", "methods_known", "units_known"),
        migrations.RenameField("run", "methods_are_all", "all_units_known"),
        migrations.RenameField("checkpoint", "tasks_done", "units_done"),
        migrations.RenameField("checkpoint", "tasks_total", "units_total"),
        migrations.AddField("checkpoint", "is_open_ended", models.BooleanField(default=False)),
        migrations.RenameField("location", "provider", "store_kind"),
        migrations.RenameField("preflightcheck", "provider", "store_kind"),
        migrations.RenameField("location", "secrets_mark", "secrets_digest"),
        migrations.RenameField("project", "secrets_mark", "secrets_digest"),
        migrations.RenameField("location", "refused_mark", "refused_fingerprint"),
        migrations.AlterField(
            "checkpoint",
            "state",
            models.CharField(
                choices=[
                    ("present", "present"),
                    ("pruned", "pruned at its source"),
                    ("writing", "still being written"),
                    ("broken", "broken since"),
                ],
                default="present",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            "question",
            "kind",
            models.CharField(
                choices=[
                    ("human_input", "output review"),
                    ("human_feedback", "feedback"),
                    ("flow_input", "input"),
                    ("program_input", "input for the project's code"),
                ],
                max_length=20,
            ),
        ),
        migrations.RunPython(mark_open_ended, migrations.RunPython.noop),
        migrations.RunPython(rename_in_requests, migrations.RunPython.noop),
    ]

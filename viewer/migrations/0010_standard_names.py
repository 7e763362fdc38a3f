"""Rename models, columns and constraints to standard terms, and record the engine of each location."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

UNFINISHED = ("queued", "starting", "running")


def rename_values(apps: Any, schema_editor: Any) -> None:
    """Rename the values whose names changed: a status of preflight checks, and the scope of a limit."""
    apps.get_model("viewer", "PreflightCheck").objects.filter(status="looking").update(status="checking")
    jobs = apps.get_model("viewer", "Job").objects
    for job in jobs.filter(limit_hit__whose="variations").only("pk", "limit_hit"):
        jobs.filter(pk=job.pk).update(limit_hit=job.limit_hit | {"whose": "sweep"})


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0009_known_secrets"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint("checkpoint", "one_checkpoint_a_key"),
        migrations.RemoveConstraint("problem", "one_problem_a_key"),
        migrations.RemoveConstraint("run", "one_run_a_key"),
        migrations.RemoveConstraint("job", "one_fork_a_branch"),
        migrations.RemoveConstraint("job", "one_resume_a_branch"),
        migrations.RemoveConstraint("jobevent", "one_event_a_seq"),
        migrations.RemoveConstraint("question", "one_question_a_number"),
        migrations.RemoveConstraint("acceptedeffect", "accepted_once"),
        migrations.RenameModel("Look", "PreflightCheck"),
        migrations.RenameIndex(
            "preflightcheck",
            old_name="viewer_look_fingerp_ec1a6a_idx",
            new_name="viewer_pref_fingerp_2b5a14_idx",
        ),
        migrations.RenameModel("Variations", "Sweep"),
        migrations.RenameField("job", "asked", "request_digest"),
        migrations.RenameField("job", "due_at", "became_due_at"),
        migrations.RenameField("job", "stopped_by", "limit_hit"),
        migrations.RenameField("job", "steps", "steps_used"),
        migrations.RenameField("job", "variations", "sweep"),
        migrations.RenameField("location", "unreadable", "read_error"),
        migrations.RenameField("location", "unreadable_words", "read_error_words"),
        migrations.RenameField("checkpoint", "key", "source_key"),
        migrations.RenameField("checkpoint", "edge", "parent_link"),
        migrations.RenameField("problem", "key", "source_key"),
        migrations.AddField("location", "engine", models.CharField(default="crewai", max_length=50)),
        migrations.AlterModelOptions("problem", {"ordering": ["source_key"]}),
        migrations.AlterField(
            "preflightcheck",
            "status",
            models.CharField(
                choices=[
                    ("unchecked", "not checked"),
                    ("waiting", "waiting"),
                    ("checking", "checking"),
                    ("done", "done"),
                    ("failed", "failed"),
                ],
                default="waiting",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            "preflightcheck",
            "checkpoint",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="preflight_checks",
                to="viewer.checkpoint",
            ),
        ),
        migrations.AlterField(
            "preflightcheck",
            "project",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="preflight_checks",
                to="viewer.project",
            ),
        ),
        migrations.AlterField(
            "sweep",
            "checkpoint",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="sweeps",
                to="viewer.checkpoint",
            ),
        ),
        migrations.AddConstraint(
            "checkpoint",
            models.UniqueConstraint(fields=("location", "source_key"), name="unique_checkpoint_source_key"),
        ),
        migrations.AddConstraint(
            "problem",
            models.UniqueConstraint(fields=("location", "source_key"), name="unique_problem_source_key"),
        ),
        migrations.AddConstraint(
            "run", models.UniqueConstraint(fields=("location", "key"), name="unique_run_key")
        ),
        migrations.AddConstraint(
            "job",
            models.UniqueConstraint(
                condition=models.Q(("kind", "fork"), ("run__isnull", False), ("status__in", UNFINISHED)),
                fields=("location", "branch"),
                name="unique_unfinished_fork",
            ),
        ),
        migrations.AddConstraint(
            "job",
            models.UniqueConstraint(
                condition=models.Q(("kind", "resume"), ("status__in", UNFINISHED)),
                fields=("run", "branch"),
                name="unique_unfinished_resume",
            ),
        ),
        migrations.AddConstraint(
            "jobevent", models.UniqueConstraint(fields=("job", "seq"), name="unique_event_seq")
        ),
        migrations.AddConstraint(
            "question",
            models.UniqueConstraint(fields=("job", "number"), name="unique_question_number"),
        ),
        migrations.AddConstraint(
            "acceptedeffect",
            models.UniqueConstraint(fields=("project", "key"), name="unique_accepted_effect"),
        ),
        migrations.RunPython(rename_values, migrations.RunPython.noop),
    ]

"""One unfinished fork for a new branch, and one unfinished resume for a branch of a run."""

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

UNFINISHED = ("queued", "starting", "running")


def let_go_of_shared_branches(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Jobs that share a branch since before the constraint go on, but only the oldest keeps its run's page."""
    jobs = apps.get_model("viewer", "Job").objects.filter(status__in=UNFINISHED, run__isnull=False)
    seen = set()
    for job in jobs.filter(kind__in=("fork", "resume")).order_by("created_at"):
        key = (job.kind, job.location_id if job.kind == "fork" else job.run_id, job.branch)
        if key in seen:
            jobs.filter(pk=job.pk).update(run=None)
        seen.add(key)


class Migration(migrations.Migration):
    dependencies = [("viewer", "0005_program_input")]
    operations = [
        migrations.RunPython(let_go_of_shared_branches, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "fork"), ("run__isnull", False), ("status__in", UNFINISHED)),
                fields=("location", "branch"),
                name="one_fork_a_branch",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "resume"), ("status__in", UNFINISHED)),
                fields=("run", "branch"),
                name="one_resume_a_branch",
            ),
        ),
    ]

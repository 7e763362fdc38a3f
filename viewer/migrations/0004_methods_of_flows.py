"""The methods of a flow, known to its whole run. Rows that are there get what an import would give them."""

from collections.abc import Iterator

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F, Max


def store_methods(apps: Apps, schema_editor: BaseDatabaseSchemaEditor | None) -> None:
    """Store what importing each flow's checkpoints would store now, from what their rows and jobs tell."""
    flows = apps.get_model("viewer", "Checkpoint").objects.filter(entity="flow").order_by()
    runs = apps.get_model("viewer", "Run").objects
    # Nothing known is left to do, but only its end says that nothing else is.
    flows.filter(tasks_total=F("tasks_done")).exclude(trigger="flow_finished").update(tasks_total=0)
    for location, checkpoint_id in last_checkpoints(apps):
        last = flows.filter(location=location, checkpoint_id=checkpoint_id, tasks_total=0)
        last.filter(trigger="method_execution_finished").update(tasks_total=F("tasks_done"))
    finished = flows.filter(tasks_total=F("tasks_done")).values_list("run").annotate(Max("tasks_done"))
    finished_with = dict(finished)
    known = flows.values_list("run").annotate(Max("tasks_done"), Max("tasks_total"))
    for run, done, total in known:
        methods = max(done, total)
        are_all = 0 < methods == finished_with.get(run)
        runs.filter(pk=run).update(methods_known=methods, methods_are_all=are_all)


def last_checkpoints(apps: Apps) -> Iterator[tuple[int, str]]:
    """The location and the id of the last checkpoint that each job of a flow wrote which has succeeded."""
    told = apps.get_model("viewer", "JobEvent").objects.filter(kind="checkpoint").order_by("seq")
    jobs = apps.get_model("viewer", "Job").objects.filter(status="succeeded", run__entity="flow")
    for job, location in jobs.values_list("pk", "location"):
        last = told.filter(job=job).values_list("data__id", flat=True).last()
        if last:
            yield location, last


class Migration(migrations.Migration):
    dependencies = [("viewer", "0003_who_may_run")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="methods_known",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="methods_are_all",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(store_methods, migrations.RunPython.noop),
    ]

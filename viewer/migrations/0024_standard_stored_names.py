from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

KIND = {"flow_input": "text_input"}
REASON = {"asked": "requested"}


def rename(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Store questions, limits, requests and plans by the names that viewer/host/jobs/spool.py has for them."""
    apps.get_model("viewer", "Question").objects.filter(kind="flow_input").update(kind="text_input")
    for event in apps.get_model("viewer", "JobEvent").objects.filter(kind__in=["question", "limit"]).iterator():
        if rename_key(event.data, "most", "max_amount") or rename_value(event.data, "kind", KIND):
            event.save(update_fields=["data"])
    for job in apps.get_model("viewer", "Job").objects.iterator():
        changed = []
        if rename_key(job.limit_hit, "most", "max_amount"):
            changed.append("limit_hit")
        if rename_key((job.request.get("options") or {}).get("checkpoints"), "most", "max_checkpoints"):
            changed.append("request")
        if any([rename_value(step, "reason", REASON) for step in job.plan]):
            changed.append("plan")
        if changed:
            job.save(update_fields=changed)


def rename_key(value: object, old: str, new: str) -> bool:
    """Rename a key of a JSON object. Return whether it had one of the old name."""
    if not isinstance(value, dict) or old not in value:
        return False
    value[new] = value.pop(old)
    return True


def rename_value(value: object, key: str, names: dict[str, str]) -> bool:
    """Rename the value of a key of a JSON object. Return whether it had one of the old names."""
    if not isinstance(value, dict) or value.get(key) not in names:
        return False
    value[key] = names[value[key]]
    return True


class Migration(migrations.Migration):
    dependencies = [("viewer", "0023_run_list")]

    operations = [
        migrations.AlterField(
            model_name="question",
            name="kind",
            field=models.CharField(
                choices=[
                    ("human_input", "output review"),
                    ("human_feedback", "feedback"),
                    ("text_input", "input"),
                    ("program_input", "input for the project's code"),
                    ("interrupt", "interrupt of a graph"),
                ],
                max_length=20,
            ),
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]

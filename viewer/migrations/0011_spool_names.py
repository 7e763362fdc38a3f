from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

KINDS = {"look": "preflight", "preloaded": "cache_warmed"}


def rename(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Store events and requests by the names that viewer/host/jobs/spool.py has for them."""
    for old, new in KINDS.items():
        apps.get_model("viewer", "JobEvent").objects.filter(kind=old).update(kind=new)
    for event in apps.get_model("viewer", "JobEvent").objects.filter(kind="preflight").iterator():
        if rename_key(event.data.get("report"), "parts", "components"):
            event.save(update_fields=["data"])
    for check in apps.get_model("viewer", "PreflightCheck").objects.iterator():
        if rename_key(check.report, "parts", "components"):
            check.save(update_fields=["report"])
    for job in apps.get_model("viewer", "Job").objects.iterator():
        if rename_key(job.request.get("options"), "preload", "cache_warmup"):
            job.save(update_fields=["request"])


def rename_key(value: object, old: str, new: str) -> bool:
    """Rename a key of a JSON object. Return whether it had one of the old name."""
    if not isinstance(value, dict) or old not in value:
        return False
    value[new] = value.pop(old)
    return True


class Migration(migrations.Migration):
    dependencies = [("viewer", "0010_standard_names")]

    operations = [migrations.RunPython(rename, migrations.RunPython.noop)]

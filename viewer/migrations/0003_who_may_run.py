"""Add the permission to run. Existing users keep what they could do."""

from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

NAME = "May start, cancel and answer runs, and change what they run with"


def keep_what_they_may(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    users = apps.get_model("auth", "User").objects.filter(is_superuser=False)
    if not users.exists():
        return
    # Django enters rights after the last migration only.
    of_jobs, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="viewer", model="job"
    )
    right, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=of_jobs, codename="may_run", defaults={"name": NAME}
    )
    for user in users:
        user.user_permissions.add(right)


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0002_runs_and_questions"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="job",
            options={"ordering": ["-created_at"], "permissions": [("may_run", NAME)]},
        ),
        migrations.RunPython(keep_what_they_may, migrations.RunPython.noop),
    ]

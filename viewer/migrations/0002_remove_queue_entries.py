from typing import Any

from django.db import migrations


def remove_tables(apps: Any, schema_editor: Any) -> None:
    """Remove what django-tasks-db stored. The rows of jobs are the queue."""
    schema_editor.execute("DROP TABLE IF EXISTS django_tasks_database_dbtaskresult")
    schema_editor.execute("DELETE FROM django_migrations WHERE app = 'django_tasks_database'")
    # With the permissions of its table.
    apps.get_model("contenttypes", "ContentType").objects.filter(app_label="django_tasks_database").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(remove_tables, migrations.RunPython.noop)]

"""All tables of a new database. One that has some of the replaced migrations gets the others one by one."""

from graphlib import TopologicalSorter
from importlib import import_module

from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ModelState, ProjectState, StateApps

from viewer.migrations import REPLACED, SQUASHED

# What a new database has besides the tables: the function of each migration that adds it.
ADDED = (
    ("0001_initial", "create_search_text"),
    ("0003_hosts", "add_default_host"),
    ("0005_search_on_postgresql", "create_index"),
    ("0012_plans_of_searches", "change"),
    ("0018_audit", "create_triggers"),
)


def add(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    # With nothing deferred, Django records the migration in the transaction that creates the tables.
    for statement in editor.deferred_sql:
        editor.execute(statement, params=None)
    editor.deferred_sql.clear()
    for migration, function in ADDED:
        getattr(import_module(f"viewer.migrations.{migration}"), function)(apps, editor)


def created() -> list[migrations.CreateModel]:
    """Create each table as the replaced migrations leave it, after those that it refers to."""
    state = ProjectState()
    for name in SQUASHED:
        for operation in import_module(f"viewer.migrations.{name}").Migration.operations:
            operation.state_forwards("viewer", state)
    models = {f"viewer.{name}": model for (_app, name), model in state.models.items()}
    order = TopologicalSorter({name: sorted(referred(model) - {name}) for name, model in models.items()})
    return [
        migrations.CreateModel(one.name, list(one.fields.items()), one.options, one.bases, one.managers)
        for one in map(models.get, order.static_order())
        if one
    ]


def referred(model: ModelState) -> set[str]:
    relations = [field.remote_field for field in model.fields.values() if field.remote_field]
    return {str(one.model).lower() for one in relations}


class Migration(migrations.Migration):

    initial = True

    replaces = [("viewer", name) for name in (*REPLACED, *SQUASHED)]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [*created(), migrations.RunPython(add, migrations.RunPython.noop)]

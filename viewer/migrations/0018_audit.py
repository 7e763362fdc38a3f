"""The audit trail, which the database only adds to.

An entry cannot be changed. It can be deleted only while a row of AuditRetention allows it, which
viewer/records/audit.py writes and deletes in the transaction that deletes entries, and never one of the last
day. SQLite drops triggers with a table, so a migration that makes the table again has to create them again.
"""

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models.functions import Now

ALLOWED = "EXISTS (SELECT 1 FROM viewer_auditretention WHERE before > OLD.at AND before <= {a_day_ago})"
DELETED = ALLOWED.format(a_day_ago="strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 day')")
SQLITE = [
    "CREATE TRIGGER viewer_auditentry_updated BEFORE UPDATE ON viewer_auditentry BEGIN"
    " SELECT RAISE(ABORT, 'entries of the audit trail cannot be changed'); END",
    "CREATE TRIGGER viewer_auditentry_deleted BEFORE DELETE ON viewer_auditentry"
    f" WHEN NOT {DELETED} BEGIN"
    " SELECT RAISE(ABORT, 'entries of the audit trail cannot be deleted'); END",
    # REPLACE deletes without the trigger above.
    "CREATE TRIGGER viewer_auditentry_replaced BEFORE INSERT ON viewer_auditentry"
    " WHEN EXISTS (SELECT 1 FROM viewer_auditentry WHERE id = NEW.id) BEGIN"
    " SELECT RAISE(ABORT, 'entries of the audit trail cannot be replaced'); END",
]
POSTGRESQL = [
    f"""
    CREATE FUNCTION forkline_audit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'TRUNCATE' THEN
            IF NOT EXISTS (SELECT 1 FROM viewer_auditentry) THEN RETURN NULL; END IF;
        ELSIF TG_OP = 'DELETE' THEN
            IF {ALLOWED.format(a_day_ago="now() - interval '1 day'")} THEN RETURN OLD; END IF;
        END IF;
        RAISE EXCEPTION 'entries of the audit trail cannot be changed or deleted';
    END $$
    """,
    "CREATE TRIGGER viewer_auditentry_changed BEFORE UPDATE OR DELETE ON viewer_auditentry"
    " FOR EACH ROW EXECUTE FUNCTION forkline_audit()",
    "CREATE TRIGGER viewer_auditentry_truncated BEFORE TRUNCATE ON viewer_auditentry"
    " FOR EACH STATEMENT EXECUTE FUNCTION forkline_audit()",
]


def create_triggers(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Create the triggers of this database."""
    for statement in POSTGRESQL if editor.connection.vendor == "postgresql" else SQLITE:
        # Without parameters, so that a percent sign is one.
        editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0017_store_kind_of_savers"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditRetention",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("before", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="hostrequest",
            name="actor",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(db_default=Now())),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[
                            ("user", "User"),
                            ("share", "Share link"),
                            ("terminal", "Terminal"),
                            ("visitor", "Visitor"),
                            ("server", "Forkline"),
                        ],
                        max_length=20,
                    ),
                ),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("address", models.CharField(blank=True, max_length=50)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("logged_in", "logged in"),
                            ("logged_out", "logged out"),
                            ("opened", "opened"),
                            ("searched", "searched"),
                            ("exported", "exported"),
                            ("shared", "shared"),
                            ("revoked", "revoked"),
                            ("started", "started"),
                            ("answered", "answered"),
                            ("cancelled", "cancelled"),
                            ("added", "added"),
                            ("changed", "changed"),
                            ("removed", "removed"),
                            ("pruned", "pruned"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("user", "User"),
                            ("location", "Location"),
                            ("project", "Project"),
                            ("run", "Run"),
                            ("checkpoint", "Checkpoint"),
                            ("call", "Call"),
                            ("comparison", "Comparison"),
                            ("search", "Search"),
                            ("job", "Job"),
                            ("sweep", "Sweep"),
                            ("question", "Question"),
                            ("share", "Share link"),
                            ("host", "Host"),
                            ("limits", "Daily limits"),
                            ("audit", "Audit trail"),
                        ],
                        max_length=20,
                    ),
                ),
                ("key", models.CharField(blank=True, max_length=200)),
                ("detail", models.CharField(blank=True, max_length=300)),
                (
                    "result",
                    models.CharField(
                        choices=[("done", "done"), ("not_done", "not done")], default="done", max_length=20
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["actor", "-id"], name="audit_by_actor"),
                    models.Index(fields=["key", "-id"], name="audit_by_key"),
                    models.Index(fields=["at"], name="audit_by_time"),
                ],
            },
        ),
        migrations.RunPython(create_triggers, migrations.RunPython.noop),
    ]

"""The audit trail records what is done to the database itself."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0018_audit"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="kind",
            field=models.CharField(
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
                    ("database", "Database"),
                ],
                max_length=20,
            ),
        ),
    ]

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0019_audit_of_the_database"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
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
                    ("collection", "Collection"),
                    ("share", "Share link"),
                    ("host", "Host"),
                    ("limits", "Daily limits"),
                    ("audit", "Audit trail"),
                    ("database", "Database"),
                ],
                max_length=20,
            ),
        ),
        migrations.CreateModel(
            name="Collection",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("description", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "made_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name", "pk"],
            },
        ),
        migrations.CreateModel(
            name="CollectionItem",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("checkpoint", "Checkpoint"),
                            ("message", "Message"),
                            ("call", "Model call"),
                        ],
                        max_length=20,
                    ),
                ),
                ("location_uid", models.UUIDField()),
                ("run_key", models.CharField(max_length=200)),
                ("checkpoint_id", models.CharField(max_length=300)),
                ("part", models.CharField(blank=True, max_length=300)),
                ("title", models.CharField(blank=True, max_length=300)),
                ("note", models.TextField(blank=True)),
                ("expected", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "collection",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="viewer.collection",
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
                "indexes": [models.Index(fields=["location_uid"], name="items_of_location")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("collection", "kind", "location_uid", "run_key", "checkpoint_id", "part"),
                        name="unique_collection_item",
                    )
                ],
            },
        ),
    ]

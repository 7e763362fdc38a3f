from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Coalesce

VIEWER, ADMIN = 1, 3


def give_roles(apps: Any, schema_editor: Any) -> None:
    """Give everybody a role on all locations that allows what they could do before."""
    user_model = apps.get_model("auth", "User")
    team_model, role_model = apps.get_model("viewer", "Team"), apps.get_model("viewer", "Role")
    right = {"content_type__app_label": "viewer", "codename": "can_run"}
    may_run = set(
        user_model.objects.filter(
            **{f"user_permissions__{name}": value for name, value in right.items()}
        ).values_list("pk", flat=True)
    )
    for user in user_model.objects.filter(is_superuser=False):
        role_model.objects.create(user=user, level=ADMIN if user.pk in may_run else VIEWER)
    groups = apps.get_model("auth", "Group").objects
    for group in groups.filter(**{f"permissions__{name}": value for name, value in right.items()}).distinct():
        team = team_model.objects.create(name=group.name)
        team.members.set(group.user_set.all())
        role_model.objects.create(team=team, level=ADMIN)


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0023_requester_of_jobs"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="kind",
            field=models.CharField(
                choices=[
                    ("user", "User"),
                    ("team", "Team"),
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
            name="Team",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=150, unique=True)),
                (
                    "members",
                    models.ManyToManyField(blank=True, related_name="teams", to=settings.AUTH_USER_MODEL),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Role",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "level",
                    models.PositiveSmallIntegerField(choices=[(1, "Viewer"), (2, "Operator"), (3, "Admin")]),
                ),
                (
                    "location",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="roles",
                        to="viewer.location",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="roles",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="roles",
                        to="viewer.team",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("team", None), ("user__isnull", False))
                        | models.Q(("team__isnull", False), ("user", None)),
                        name="role_of_team_or_user",
                    ),
                    models.UniqueConstraint(
                        Coalesce("team", 0), Coalesce("user", 0), Coalesce("location", 0), name="unique_role"
                    ),
                ],
            },
        ),
        migrations.RunPython(give_roles, migrations.RunPython.noop),
    ]

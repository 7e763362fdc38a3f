from typing import Any

from django.db import migrations, models


def read_broken_ones_again(apps: Any, schema_editor: Any) -> None:
    """A file that could not be opened for a moment counted as broken. The next import finds out which are."""
    apps.get_model("viewer", "Problem").objects.filter(kind="broken").delete()


class Migration(migrations.Migration):
    dependencies = [("viewer", "0007_accepted_effects")]

    operations = [
        migrations.AddField("location", "identity", models.CharField(blank=True, default="", max_length=100), False),
        migrations.AddField("location", "replaced_by", models.CharField(blank=True, default="", max_length=100), False),
        migrations.AddField("location", "refused_mark", models.CharField(blank=True, default="", max_length=300), False),
        migrations.AlterField(
            "problem",
            "kind",
            models.CharField(
                choices=[
                    ("writing", "still being written"),
                    ("broken", "broken"),
                    ("refused", "refused"),
                    ("unavailable", "not available"),
                    ("foreign", "not a checkpoint"),
                ],
                max_length=20,
            ),
        ),
        migrations.RunPython(read_broken_ones_again, migrations.RunPython.noop),
    ]

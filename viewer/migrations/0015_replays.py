from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0014_commit_of_checks"),
    ]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="kind",
            field=models.CharField(
                choices=[
                    ("resume", "Resume"),
                    ("fork", "Fork"),
                    ("run", "New run"),
                    ("publish", "Publish"),
                    ("score", "Score"),
                    ("replay", "Replay"),
                ],
                max_length=20,
            ),
        ),
    ]

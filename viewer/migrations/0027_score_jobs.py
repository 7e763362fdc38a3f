from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0026_notes_in_search")]

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
                ],
                max_length=20,
            ),
        ),
    ]

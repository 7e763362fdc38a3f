from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0020_search_text")]

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
                ],
                max_length=20,
            ),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0016_groups_of_runs"),
    ]

    operations = [
        migrations.AlterField(
            model_name="location",
            name="store_kind",
            field=models.CharField(
                choices=[
                    ("json", "JSON folder"),
                    ("sqlite", "SQLite file"),
                    ("states", "SQLite file of states"),
                    ("postgresql", "PostgreSQL database"),
                    ("saver", "checkpoint saver"),
                ],
                max_length=20,
            ),
        ),
    ]

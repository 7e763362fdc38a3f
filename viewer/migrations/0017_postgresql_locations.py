from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0016_interrupt_questions")]

    operations = [
        migrations.AlterField(
            model_name="location",
            name="store_kind",
            field=models.CharField(
                choices=[
                    ("json", "JSON folder"),
                    ("sqlite", "SQLite file"),
                    ("postgresql", "PostgreSQL database"),
                ],
                max_length=20,
            ),
        ),
    ]

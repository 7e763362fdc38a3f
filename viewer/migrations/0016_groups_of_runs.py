from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0015_replays"),
    ]

    operations = [
        migrations.AddField(
            model_name="sweep",
            name="is_of_runs",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0013_pools"),
    ]

    operations = [
        migrations.AddField(
            model_name="preflightcheck",
            name="commit",
            field=models.CharField(blank=True, db_default="", max_length=64),
        ),
    ]

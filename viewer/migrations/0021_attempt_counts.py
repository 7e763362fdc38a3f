from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0020_collections")]

    operations = [
        migrations.CreateModel(
            name="AttemptCount",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("count", models.PositiveIntegerField()),
                ("ends_at", models.DateTimeField()),
            ],
        ),
    ]

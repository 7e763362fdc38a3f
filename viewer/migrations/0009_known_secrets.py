from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0008_pinned_locations")]

    operations = [
        migrations.AddField("location", "secrets_mark", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("project", "secrets_mark", models.CharField(blank=True, default="", max_length=64)),
    ]

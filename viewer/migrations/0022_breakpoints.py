from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0021_publish_jobs")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="stopped_before",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
    ]

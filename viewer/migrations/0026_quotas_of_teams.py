from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0025_invitations")]

    operations = [
        migrations.AddField(
            model_name="team",
            name="quotas",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
    ]

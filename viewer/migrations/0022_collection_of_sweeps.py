import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("viewer", "0021_attempt_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="sweep",
            name="collection",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="sweeps",
                to="viewer.collection",
            ),
        ),
    ]

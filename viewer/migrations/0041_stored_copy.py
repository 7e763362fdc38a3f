import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('viewer', '0040_copied_runs'),
    ]

    operations = [
        migrations.RenameModel(old_name='CheckpointBody', new_name='StoredCopy'),
        migrations.AlterField(
            model_name='storedcopy',
            name='checkpoint',
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name='stored_copy',
                serialize=False,
                to='viewer.checkpoint',
            ),
        ),
    ]

"""An accepted effect records the tool and the field of its value.

What was accepted before was not bound to them, and does not count any more: it is asked again.
"""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('viewer', '0044_unfinished_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='acceptedeffect',
            name='tool',
            field=models.CharField(blank=True, db_default='', max_length=300),
        ),
        migrations.AddField(
            model_name='acceptedeffect',
            name='field',
            field=models.CharField(blank=True, db_default='', max_length=300),
        ),
        migrations.AddField(
            model_name='acceptedeffect',
            name='is_bound',
            field=models.BooleanField(db_default=False, default=True),
        ),
        migrations.AlterField(
            model_name='acceptedeffect',
            name='kind',
            field=models.CharField(choices=[('module', 'Import'), ('command', 'Command'), ('file', 'File'), ('host', 'Host'), ('key', 'Key'), ('value', 'Value')], max_length=20),
        ),
    ]

from django.db import migrations, models
from django.db.models import F


def record_branches(apps, schema_editor):
    """The branches that are stored so far are those that the engine recorded."""
    apps.get_model('viewer', 'Checkpoint').objects.update(recorded_branch=F('branch'))


def read_again(apps, schema_editor):
    """Have the next import read checkpoints with events again: attempts, statuses and working times are new."""
    readable = apps.get_model('viewer', 'Checkpoint').objects.filter(event_count__gt=0, state='present')
    readable.update(fingerprint='')


class Migration(migrations.Migration):

    dependencies = [
        ('viewer', '0042_index_of_runs_without_inputs'),
    ]

    operations = [
        migrations.AddField(
            model_name='checkpoint',
            name='recorded_branch',
            field=models.CharField(blank=True, db_default='', default='', max_length=300),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='ended_as',
            field=models.CharField(blank=True, db_default='', default='', max_length=20),
        ),
        migrations.AddField(
            model_name='run',
            name='newest_status',
            field=models.CharField(blank=True, db_default='', default='', max_length=20),
        ),
        migrations.AddField(
            model_name='run',
            name='branch_statuses',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.RunPython(record_branches, migrations.RunPython.noop),
        migrations.RunPython(read_again, migrations.RunPython.noop),
    ]

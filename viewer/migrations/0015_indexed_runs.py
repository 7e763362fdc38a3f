
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('viewer', '0014_units_and_store_kinds'),
    ]

    operations = [
        migrations.AddField(
            model_name='checkpoint',
            name='step',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='turn',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='units',
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.AddField(
            model_name='location',
            name='listed_fingerprint',
            field=models.CharField(blank=True, default='', max_length=300),
        ),
        migrations.AddField(
            model_name='run',
            name='called_from',
            field=models.CharField(blank=True, db_default='', default='', max_length=300),
        ),
        migrations.AddField(
            model_name='run',
            name='described_head',
            field=models.CharField(blank=True, db_default='', default='', max_length=300),
        ),
        migrations.AddField(
            model_name='run',
            name='head',
            field=models.CharField(blank=True, db_default='', default='', max_length=300),
        ),
        migrations.AddField(
            model_name='run',
            name='indexed_fingerprint',
            field=models.CharField(blank=True, db_default='', default='', max_length=300),
        ),
        migrations.AddField(
            model_name='run',
            name='is_forked',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='run',
            name='namespace',
            field=models.CharField(blank=True, db_default='', default='', max_length=500),
        ),
        migrations.AddField(
            model_name='run',
            name='parent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='called_runs', to='viewer.run'),
        ),
        migrations.AddField(
            model_name='run',
            name='status',
            field=models.CharField(blank=True, choices=[('waiting', 'waiting for an answer'), ('failed', 'failed')], db_default='', default='', max_length=20),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['location', '-last_at', '-id'], name='newest_runs'),
        ),
    ]

"""The tables of version 0.1.0. A database of that version has the migrations that this one replaces."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from viewer.migrations import RELEASED


# The full-text index of search entries. Triggers keep it up to date: a migration that rebuilds the table of
# entries has to create them again.
SEARCH_TEXT = (
    "CREATE VIRTUAL TABLE viewer_searchtext USING fts5("
    "text, content='viewer_searchentry', content_rowid='id', tokenize='unicode61 remove_diacritics 2')",
    # Deleted texts leave no words behind.
    "INSERT INTO viewer_searchtext(viewer_searchtext, rank) VALUES ('secure-delete', 1)",
    "CREATE TRIGGER viewer_searchentry_inserted AFTER INSERT ON viewer_searchentry BEGIN"
    " INSERT INTO viewer_searchtext(rowid, text) VALUES (new.id, new.text); END",
    "CREATE TRIGGER viewer_searchentry_deleted AFTER DELETE ON viewer_searchentry BEGIN"
    " INSERT INTO viewer_searchtext(viewer_searchtext, rowid, text) VALUES ('delete', old.id, old.text); END",
)


def create_search_text(_apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Other databases have their own full-text search."""
    if editor.connection.vendor == "sqlite":
        for statement in SEARCH_TEXT:
            editor.execute(statement)


class Migration(migrations.Migration):

    initial = True

    replaces = [('viewer', name) for name in RELEASED]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_key', models.CharField(max_length=1000)),
                ('fingerprint', models.CharField(max_length=200)),
                ('checkpoint_id', models.CharField(max_length=300)),
                ('parent_checkpoint_id', models.CharField(blank=True, max_length=300)),
                ('run_key', models.CharField(blank=True, max_length=200)),
                ('branch', models.CharField(max_length=300)),
                ('recorded_branch', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('trigger', models.CharField(blank=True, max_length=100)),
                ('subject', models.CharField(blank=True, max_length=300)),
                ('created_at', models.DateTimeField(null=True)),
                ('engine_version', models.CharField(blank=True, max_length=50)),
                ('entity', models.CharField(max_length=20)),
                ('is_open_ended', models.BooleanField(default=False)),
                ('name', models.CharField(blank=True, max_length=300)),
                ('units_done', models.PositiveIntegerField(default=0)),
                ('units_total', models.PositiveIntegerField(default=0)),
                ('event_count', models.PositiveIntegerField(default=0)),
                ('tokens', models.PositiveBigIntegerField(default=0)),
                ('size', models.PositiveBigIntegerField(default=0)),
                ('step', models.IntegerField(null=True)),
                ('turn', models.PositiveIntegerField(db_default=0, default=0)),
                ('units', models.JSONField(db_default=[], default=list)),
                ('state', models.CharField(choices=[('present', 'present'), ('pruned', 'pruned at its source'), ('no_copy', 'pruned, no copy'), ('writing', 'still being written'), ('broken', 'broken since')], default='present', max_length=20)),
                ('parent_link', models.CharField(choices=[('recorded', 'recorded'), ('inferred', 'inferred'), ('missing', 'parent missing'), ('root', 'start')], default='root', max_length=20)),
                ('lane', models.PositiveIntegerField(default=0)),
                ('row', models.PositiveIntegerField(default=0)),
                ('is_branch_head', models.BooleanField(default=False)),
                ('ended_as', models.CharField(blank=True, db_default='', default='', max_length=20)),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='viewer.checkpoint')),
            ],
            options={
                'ordering': ['-row'],
            },
        ),
        migrations.CreateModel(
            name='Location',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.UUIDField(editable=False, unique=True)),
                ('path', models.CharField(max_length=1000, unique=True)),
                ('engine', models.CharField(default='crewai', max_length=50)),
                ('store_kind', models.CharField(choices=[('json', 'JSON folder'), ('sqlite', 'SQLite file'), ('postgresql', 'PostgreSQL database')], max_length=20)),
                ('secrets_digest', models.CharField(blank=True, default='', max_length=64)),
                ('added_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('imported_at', models.DateTimeField(blank=True, null=True)),
                ('read_error', models.JSONField(blank=True, null=True)),
                ('identity', models.CharField(blank=True, max_length=100)),
                ('replaced_by', models.CharField(blank=True, max_length=100)),
                ('refused_fingerprint', models.CharField(blank=True, max_length=300)),
                ('listed_fingerprint', models.CharField(blank=True, default='', max_length=300)),
                ('price_digest', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('revision', models.PositiveIntegerField(default=0)),
                ('import_state', models.CharField(blank=True, choices=[('requested', 'being imported'), ('cancelled', 'cancelled')], db_default='', default='', max_length=20)),
                ('import_done', models.PositiveIntegerField(db_default=0, default=0)),
                ('import_total', models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                'ordering': ['path'],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('usage', models.JSONField(blank=True, db_default=[], default=list)),
                ('tokens_in', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tokens_out', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('model', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('cost', models.FloatField(blank=True, null=True)),
                ('unpriced_calls', models.PositiveIntegerField(db_default=0, default=0)),
                ('is_priced', models.BooleanField(db_default=True, default=True)),
                ('uid', models.UUIDField(editable=False, unique=True)),
                ('key', models.CharField(max_length=200)),
                ('entity', models.CharField(max_length=20)),
                ('name', models.CharField(blank=True, max_length=300)),
                ('first_at', models.DateTimeField(null=True)),
                ('last_at', models.DateTimeField(null=True)),
                ('checkpoint_count', models.PositiveIntegerField(default=0)),
                ('branch_count', models.PositiveIntegerField(default=0)),
                ('lane_count', models.PositiveIntegerField(default=0)),
                ('tokens', models.PositiveBigIntegerField(default=0)),
                ('seconds', models.FloatField(blank=True, null=True)),
                ('units_known', models.PositiveIntegerField(default=0)),
                ('all_units_known', models.BooleanField(default=False)),
                ('called_from', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('namespace', models.CharField(blank=True, db_default='', default='', max_length=500)),
                ('head', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('described_head', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('indexed_fingerprint', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('listed_state', models.TextField(blank=True, db_default='', default='')),
                ('copies_digest', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('is_partly_listed', models.BooleanField(db_default=False, default=False)),
                ('status', models.CharField(blank=True, choices=[('waiting', 'waiting for an answer'), ('failed', 'failed'), ('completed', 'completed'), ('unfinished', 'not finished')], db_default='', default='', max_length=20)),
                ('newest_status', models.CharField(blank=True, db_default='', default='', max_length=20)),
                ('branch_statuses', models.JSONField(blank=True, db_default={}, default=dict)),
                ('is_forked', models.BooleanField(db_default=False, default=False)),
                ('inputs', models.JSONField(blank=True, db_default=[], default=list)),
                ('is_described', models.BooleanField(db_default=False, default=False)),
                ('lineage_faults', models.JSONField(blank=True, default=list)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('last_at'), descending=True, nulls_last=True), '-pk'],
            },
        ),
        migrations.CreateModel(
            name='StoredCopy',
            fields=[
                ('checkpoint', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='stored_copy', serialize=False, to='viewer.checkpoint')),
                ('data', models.BinaryField()),
                ('event_ids', models.BinaryField(default=bytes)),
                ('calls', models.JSONField(default=list)),
                ('sessions', models.JSONField(db_default=[], default=list)),
                ('source_digest', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('fingerprint', models.CharField(blank=True, db_default='', default='', max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='DayLimits',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_current', models.BooleanField(default=True, editable=False, unique=True)),
                ('limits', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('is_current', True)), name='day_limits_are_current')],
            },
        ),
        migrations.CreateModel(
            name='SearchedLocation',
            fields=[
                ('location', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='searched', serialize=False, to='viewer.location')),
                ('secrets_digest', models.CharField(blank=True, default='', max_length=64)),
                ('mark', models.CharField(blank=True, default='', max_length=400)),
            ],
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='location',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='viewer.location'),
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('folder', models.CharField(max_length=1000)),
                ('interpreter', models.CharField(max_length=1000)),
                ('environment_file', models.CharField(blank=True, max_length=1000)),
                ('entry_points', models.JSONField(blank=True, default=list)),
                ('limits', models.JSONField(blank=True, default=dict)),
                ('secrets_digest', models.CharField(blank=True, default='', max_length=64)),
                ('confirmed_at', models.DateTimeField(blank=True, null=True)),
                ('confirmed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.AddField(
            model_name='location',
            name='project',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='locations', to='viewer.project'),
        ),
        migrations.CreateModel(
            name='ReaderSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('theme', models.CharField(choices=[('system', 'As the system'), ('light', 'Light'), ('dark', 'Dark')], default='system', max_length=20)),
                ('time_zone', models.CharField(choices=[('server', 'Time zone of the server'), ('local', 'Time zone of your browser'), ('utc', 'UTC')], default='server', max_length=20)),
                ('clock', models.CharField(choices=[('24', '24 hours'), ('12', '12 hours')], default='24', max_length=20)),
                ('density', models.CharField(choices=[('comfortable', 'Comfortable'), ('compact', 'Compact')], default='comfortable', max_length=20)),
                ('language', models.CharField(blank=True, default='', max_length=20)),
                ('notifies', models.BooleanField(default=False)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='reader_settings', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='SearchedRun',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='viewer.run')),
                ('mark', models.CharField(max_length=400)),
            ],
        ),
        migrations.AddField(
            model_name='run',
            name='location',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='viewer.location'),
        ),
        migrations.AddField(
            model_name='run',
            name='parent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='called_runs', to='viewer.run'),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='run',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='viewer.run'),
        ),
        migrations.CreateModel(
            name='SavedSearch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('query', models.CharField(max_length=2000)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_searches', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='SearchEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.BinaryField()),
                ('kind', models.CharField(choices=[('input', 'Input'), ('output', 'Output'), ('prompt', 'Prompt'), ('message', 'Message'), ('tool', 'Tool'), ('error', 'Error'), ('state', 'State'), ('name', 'Name'), ('note', 'Note')], max_length=10)),
                ('query_string', models.CharField(blank=True, max_length=100)),
                ('unit', models.CharField(blank=True, max_length=300)),
                ('agent', models.CharField(blank=True, max_length=300)),
                ('model', models.CharField(blank=True, max_length=200)),
                ('text', models.TextField()),
                ('count', models.PositiveIntegerField(default=1)),
                ('checkpoint', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='viewer.checkpoint')),
                ('location', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='viewer.location')),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='viewer.run')),
            ],
        ),
        migrations.CreateModel(
            name='SearchFacet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=20)),
                ('value', models.CharField(max_length=300)),
                ('location', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='viewer.location')),
            ],
        ),
        migrations.CreateModel(
            name='ShareLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_hash', models.CharField(max_length=64, unique=True)),
                ('kind', models.CharField(choices=[('run', 'Run'), ('checkpoint', 'Checkpoint'), ('comparison', 'Comparison'), ('search', 'Search'), ('job', 'Job')], max_length=20)),
                ('target', models.TextField()),
                ('title', models.CharField(max_length=300)),
                ('locations', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('views', models.PositiveIntegerField(default=0)),
                ('last_viewed_at', models.DateTimeField(blank=True, null=True)),
                ('unfurls', models.BooleanField(default=False)),
                ('made_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='share_links', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at', '-pk'],
            },
        ),
        migrations.CreateModel(
            name='Sweep',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('idempotency_key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(max_length=300)),
                ('limits', models.JSONField(blank=True, default=dict)),
                ('score', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('checkpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='sweeps', to='viewer.checkpoint')),
                ('requested_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('usage', models.JSONField(blank=True, db_default=[], default=list)),
                ('tokens_in', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tokens_out', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('model', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('cost', models.FloatField(blank=True, null=True)),
                ('unpriced_calls', models.PositiveIntegerField(db_default=0, default=0)),
                ('is_priced', models.BooleanField(db_default=True, default=True)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('idempotency_key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('kind', models.CharField(choices=[('resume', 'Resume'), ('fork', 'Fork'), ('run', 'New run'), ('publish', 'Publish'), ('score', 'Score')], max_length=20)),
                ('branch', models.CharField(blank=True, max_length=300)),
                ('request', models.JSONField(default=dict)),
                ('plan', models.JSONField(default=list)),
                ('status', models.CharField(choices=[('queued', 'queued'), ('starting', 'starting'), ('running', 'running'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('interrupted', 'interrupted')], default='queued', max_length=20)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('cancel_requested_at', models.DateTimeField(blank=True, null=True)),
                ('start_at', models.DateTimeField(blank=True, null=True)),
                ('became_due_at', models.DateTimeField(blank=True, null=True)),
                ('request_digest', models.CharField(blank=True, max_length=64)),
                ('variation', models.CharField(blank=True, max_length=300)),
                ('limits', models.JSONField(blank=True, default=dict)),
                ('tokens', models.PositiveBigIntegerField(default=0)),
                ('steps_used', models.PositiveIntegerField(default=0)),
                ('limit_hit', models.JSONField(blank=True, default=dict)),
                ('stopped_before', models.JSONField(blank=True, db_default=[], default=list)),
                ('process_id', models.PositiveIntegerField(blank=True, null=True)),
                ('result', models.TextField(blank=True)),
                ('error', models.JSONField(blank=True, null=True)),
                ('traceback', models.TextField(blank=True)),
                ('log_end', models.TextField(blank=True)),
                ('checkpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='viewer.checkpoint')),
                ('requested_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                ('location', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to='viewer.location')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='viewer.project')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='viewer.run')),
                ('sweep', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='viewer.sweep')),
            ],
            options={
                'ordering': ['-created_at'],
                'permissions': [('can_run', 'May start, cancel and answer runs, and change what they run with')],
            },
        ),
        migrations.CreateModel(
            name='Annotation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('location_uid', models.UUIDField()),
                ('run_key', models.CharField(blank=True, max_length=200)),
                ('branch', models.CharField(blank=True, max_length=300)),
                ('checkpoint_id', models.CharField(blank=True, max_length=300)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('is_starred', models.BooleanField(default=False)),
                ('label_text', models.CharField(blank=True, max_length=500)),
                ('note', models.TextField(blank=True)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('location_uid', 'run_key', 'branch', 'checkpoint_id'), name='unique_annotation')],
            },
        ),
        migrations.CreateModel(
            name='AnnotationVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('location_uid', models.UUIDField()),
                ('run_key', models.CharField(blank=True, max_length=200)),
                ('branch', models.CharField(blank=True, max_length=300)),
                ('checkpoint_id', models.CharField(blank=True, max_length=300)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('label_text', models.CharField(blank=True, max_length=500)),
                ('note', models.TextField(blank=True)),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-pk'],
                'indexes': [models.Index(fields=['location_uid', 'run_key', 'branch', 'checkpoint_id'], name='annotation_versions')],
            },
        ),
        migrations.CreateModel(
            name='SearchedCheckpoint',
            fields=[
                ('checkpoint', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='+', serialize=False, to='viewer.checkpoint')),
                ('fingerprint', models.CharField(max_length=200)),
                ('location', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='viewer.location')),
                ('run', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='viewer.run')),
            ],
        ),
        migrations.CreateModel(
            name='JobEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seq', models.PositiveIntegerField()),
                ('kind', models.CharField(max_length=40)),
                ('at', models.DateTimeField()),
                ('data', models.JSONField(default=dict)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='viewer.job')),
            ],
            options={
                'ordering': ['seq'],
                'constraints': [models.UniqueConstraint(fields=('job', 'seq'), name='unique_event_seq')],
            },
        ),
        migrations.CreateModel(
            name='Problem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_key', models.CharField(max_length=1000)),
                ('reason', models.JSONField()),
                ('kind', models.CharField(choices=[('writing', 'still being written'), ('broken', 'broken'), ('refused', 'refused'), ('unavailable', 'not available'), ('foreign', 'not a checkpoint')], max_length=20)),
                ('fingerprint', models.CharField(blank=True, max_length=200)),
                ('first_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('location', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='problems', to='viewer.location')),
            ],
            options={
                'ordering': ['source_key'],
                'constraints': [models.UniqueConstraint(fields=('location', 'source_key'), name='unique_problem_source_key')],
            },
        ),
        migrations.CreateModel(
            name='PreflightCheck',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('entry_point', models.CharField(blank=True, max_length=300)),
                ('entity', models.CharField(blank=True, max_length=20)),
                ('store_kind', models.CharField(blank=True, max_length=20)),
                ('fingerprint', models.CharField(max_length=200)),
                ('status', models.CharField(choices=[('unchecked', 'not checked'), ('waiting', 'waiting'), ('checking', 'checking'), ('done', 'done'), ('failed', 'failed')], default='waiting', max_length=20)),
                ('report', models.JSONField(blank=True, default=dict)),
                ('error', models.JSONField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('checkpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='preflight_checks', to='viewer.checkpoint')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='preflight_checks', to='viewer.project')),
            ],
            options={
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['fingerprint'], name='viewer_pref_fingerp_2b5a14_idx')],
            },
        ),
        migrations.CreateModel(
            name='AcceptedEffect',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64)),
                ('kind', models.CharField(choices=[('module', 'Import'), ('command', 'Command'), ('file', 'File'), ('host', 'Host'), ('key', 'Key'), ('value', 'Value')], max_length=20)),
                ('name', models.CharField(max_length=300)),
                ('digest', models.CharField(blank=True, max_length=64)),
                ('detail', models.CharField(blank=True, max_length=300)),
                ('tool', models.CharField(blank=True, db_default='', max_length=300)),
                ('field', models.CharField(blank=True, db_default='', max_length=300)),
                ('is_bound', models.BooleanField(db_default=False, default=True)),
                ('accepted_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('accepted_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='accepted_effects', to='viewer.project')),
            ],
            options={
                'ordering': ['kind', 'name'],
                'constraints': [models.UniqueConstraint(fields=('project', 'key'), name='unique_accepted_effect')],
            },
        ),
        migrations.CreateModel(
            name='Question',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('kind', models.CharField(choices=[('human_input', 'output review'), ('human_feedback', 'feedback'), ('text_input', 'input'), ('program_input', "input for the project's code"), ('interrupt', 'interrupt of a graph')], max_length=20)),
                ('prompt', models.TextField()),
                ('context', models.JSONField(blank=True, default=dict)),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('answer', models.TextField(blank=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True)),
                ('answered_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='questions', to='viewer.job')),
            ],
            options={
                'ordering': ['asked_at'],
                'constraints': [models.UniqueConstraint(fields=('job', 'number'), name='unique_question_number')],
            },
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['location', '-last_at', '-id'], name='newest_runs'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('is_priced', False)), fields=['location'], name='unpriced_runs'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('is_described', False), ('parent', None)), fields=['location', '-last_at', '-id'], name='runs_without_inputs'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['-last_at', '-id'], name='newest_runs_of_all'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('is_partly_listed', True)), fields=['id'], name='partly_listed_runs'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(fields=('location', 'key'), name='unique_run_key'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(fields=['run', 'row'], name='viewer_chec_run_id_bb5dc8_idx'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(fields=['run', 'branch', 'row'], name='rows_of_branches'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(fields=['location', 'checkpoint_id'], name='viewer_chec_locatio_d69eae_idx'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(fields=['location', 'parent_checkpoint_id'], name='viewer_chec_locatio_889e1f_idx'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(fields=['location', 'run_key'], name='viewer_chec_locatio_e015fc_idx'),
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.UniqueConstraint(fields=('location', 'source_key'), name='unique_checkpoint_source_key'),
        ),
        migrations.AddConstraint(
            model_name='savedsearch',
            constraint=models.UniqueConstraint(fields=('user', 'name'), name='unique_saved_search'),
        ),
        migrations.AddConstraint(
            model_name='searchentry',
            constraint=models.UniqueConstraint(fields=('run', 'digest'), name='unique_search_entry'),
        ),
        migrations.AddConstraint(
            model_name='searchfacet',
            constraint=models.UniqueConstraint(fields=('location', 'name', 'value'), name='unique_search_facet'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['status'], name='viewer_job_status_f057c7_idx'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'fork'), ('run__isnull', False), ('status__in', ('queued', 'starting', 'running'))), fields=('location', 'branch'), name='unique_unfinished_fork'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'resume'), ('status__in', ('queued', 'starting', 'running'))), fields=('run', 'branch'), name='unique_unfinished_resume'),
        ),
        migrations.RunPython(create_search_text),
    ]

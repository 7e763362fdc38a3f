"""Bring a database of version 0.1.0 to the tables and rows of version 0.2.0.

A new database gets the tables of the models instead, and the functions here that add what models do not
declare (viewer/data_folder/migrating.py).
"""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from viewer.migrations import UNRELEASED

DEFAULT_HOST = 1


def add_default_host(apps: Any, editor: BaseDatabaseSchemaEditor) -> None:
    """Add the host of all locations and projects so far. Its worker names the machine when it registers."""
    apps.get_model("viewer", "Host").objects.create(pk=DEFAULT_HOST, name="default")
    # A number that was given does not advance PostgreSQL's sequence.
    if editor.connection.vendor == "postgresql":
        editor.execute("SELECT setval(pg_get_serial_sequence('viewer_host', 'id'), %s)", [DEFAULT_HOST])


# The words of a text, separated by spaces: letters and digits, without case and accents. The collation makes
# them the same whatever the language of the database is. A function with a setting is not inlined, so the
# planner uses its cost: it prefers the index, and computes the words of few texts.
WORDS = """
CREATE FUNCTION forkline_words(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
SET search_path = pg_catalog AS $$
    SELECT regexp_replace(
        lower(normalize(regexp_replace(normalize($1, NFD), '[\u0300-\u036f]', '', 'g'), NFC){collate}),
        '[^[:alnum:]]+', ' ', 'g')
$$
"""
COLLATION = ' COLLATE "und-x-icu"'
INDEXES = (
    # With pending entries, it would be twice as large.
    "CREATE INDEX viewer_searchentry_words ON viewer_searchentry"
    " USING gin (to_tsvector('simple', forkline_words(text))) WITH (fastupdate = off)",
    # The newest checkpoint of a location is found without sorting.
    "CREATE INDEX viewer_checkpoint_newest ON viewer_checkpoint (location_id, id)",
)


def create_postgresql_indexes(_apps: Any, editor: BaseDatabaseSchemaEditor) -> None:
    """Create PostgreSQL's index of words, and one that SQLite does not need: its own are in the order of ids.

    Without ICU, a server only knows the letters of its own locale.
    """
    if editor.connection.vendor != "postgresql":
        return
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'")
        has_icu = bool(cursor.fetchone()[0])
    editor.execute(WORDS.replace("{collate}", COLLATION if has_icu else ""))
    for statement in INDEXES:
        editor.execute(statement)


# The database only adds to the audit trail. An entry cannot be changed. It can be deleted only while a row of
# AuditRetention allows it, which viewer/records/audit.py writes and deletes in the transaction that deletes
# entries, and never one of the last day. SQLite drops triggers with a table, so a migration that makes the
# table again has to create them again.
ALLOWED = "EXISTS (SELECT 1 FROM viewer_auditretention WHERE before > OLD.at AND before <= {a_day_ago})"
DELETED = ALLOWED.format(a_day_ago="strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 day')")
AUDIT_ON_SQLITE = (
    "CREATE TRIGGER viewer_auditentry_updated BEFORE UPDATE ON viewer_auditentry BEGIN"
    " SELECT RAISE(ABORT, 'entries of the audit trail cannot be changed'); END",
    "CREATE TRIGGER viewer_auditentry_deleted BEFORE DELETE ON viewer_auditentry"
    f" WHEN NOT {DELETED} BEGIN"
    " SELECT RAISE(ABORT, 'entries of the audit trail cannot be deleted'); END",
    # REPLACE deletes without the trigger above.
    "CREATE TRIGGER viewer_auditentry_replaced BEFORE INSERT ON viewer_auditentry"
    " WHEN EXISTS (SELECT 1 FROM viewer_auditentry WHERE id = NEW.id) BEGIN"
    " SELECT RAISE(ABORT, 'entries of the audit trail cannot be replaced'); END",
)
AUDIT_ON_POSTGRESQL = (
    f"""
    CREATE FUNCTION forkline_audit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'TRUNCATE' THEN
            IF NOT EXISTS (SELECT 1 FROM viewer_auditentry) THEN RETURN NULL; END IF;
        ELSIF TG_OP = 'DELETE' THEN
            IF {ALLOWED.format(a_day_ago="now() - interval '1 day'")} THEN RETURN OLD; END IF;
        END IF;
        RAISE EXCEPTION 'entries of the audit trail cannot be changed or deleted';
    END $$
    """,
    "CREATE TRIGGER viewer_auditentry_changed BEFORE UPDATE OR DELETE ON viewer_auditentry"
    " FOR EACH ROW EXECUTE FUNCTION forkline_audit()",
    "CREATE TRIGGER viewer_auditentry_truncated BEFORE TRUNCATE ON viewer_auditentry"
    " FOR EACH STATEMENT EXECUTE FUNCTION forkline_audit()",
)


def create_audit_triggers(_apps: Any, editor: BaseDatabaseSchemaEditor) -> None:
    """Create the triggers of this database."""
    is_postgresql = editor.connection.vendor == "postgresql"
    for statement in AUDIT_ON_POSTGRESQL if is_postgresql else AUDIT_ON_SQLITE:
        # Without parameters, so that a percent sign is one.
        editor.execute(statement, params=None)


def finish(apps: Any, editor: BaseDatabaseSchemaEditor) -> None:
    """Complete the schema, then change rows: PostgreSQL alters no table whose rows have pending checks."""
    # With nothing deferred, Django records the migration in the transaction of its changes.
    for statement in editor.deferred_sql:
        editor.execute(statement, params=None)
    editor.deferred_sql.clear()
    create_postgresql_indexes(apps, editor)
    create_audit_triggers(apps, editor)
    remove_queue_entries(apps, editor)
    record_of_jobs(apps)
    give_roles(apps)


def remove_queue_entries(apps: Any, editor: BaseDatabaseSchemaEditor) -> None:
    """Remove what django-tasks-db stored. The rows of jobs are the queue."""
    editor.execute("DROP TABLE IF EXISTS django_tasks_database_dbtaskresult")
    editor.execute("DELETE FROM django_migrations WHERE app = 'django_tasks_database'")
    # With the permissions of its table.
    apps.get_model("contenttypes", "ContentType").objects.filter(app_label="django_tasks_database").delete()


def record_of_jobs(apps: Any) -> None:
    """Record the host of the location for each job that was claimed, and who requested each that waits."""
    jobs = apps.get_model("viewer", "Job").objects
    jobs.exclude(started_at=None).update(host=DEFAULT_HOST)
    jobs.filter(status="queued").update(requester_key=models.F("requested_by"))


VIEWER, ADMIN = 1, 3


def give_roles(apps: Any) -> None:
    """Give everybody a role on all locations that allows what they could do before."""
    users = apps.get_model("auth", "User").objects
    team_model, role_model = apps.get_model("viewer", "Team"), apps.get_model("viewer", "Role")
    right = {"content_type__app_label": "viewer", "codename": "can_run"}
    own = {f"user_permissions__{name}": value for name, value in right.items()}
    may_run = set(users.filter(**own).values_list("pk", flat=True))
    for user in users.filter(is_superuser=False):
        role_model.objects.create(user=user, level=ADMIN if user.pk in may_run else VIEWER)
    of_group = {f"permissions__{name}": value for name, value in right.items()}
    for group in apps.get_model("auth", "Group").objects.filter(**of_group).distinct():
        team = team_model.objects.create(name=group.name)
        team.members.set(group.user_set.all())
        role_model.objects.create(team=team, level=ADMIN)


class Migration(migrations.Migration):

    replaces = [('viewer', name) for name in UNRELEASED]

    dependencies = [
        ('viewer', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_hash', models.CharField(max_length=64, unique=True)),
                ('name', models.CharField(max_length=100)),
                ('level', models.PositiveSmallIntegerField(choices=[(1, 'Viewer'), (2, 'Operator'), (3, 'Admin')])),
                ('is_everywhere', models.BooleanField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('locations', models.ManyToManyField(blank=True, related_name='+', to='viewer.location')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at', '-pk'],
            },
        ),
        migrations.CreateModel(
            name='AttemptCount',
            fields=[
                ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('count', models.PositiveIntegerField()),
                ('ends_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor_kind', models.CharField(choices=[('user', 'User'), ('share', 'Share link'), ('terminal', 'Terminal'), ('visitor', 'Visitor'), ('server', 'Forkline')], max_length=20)),
                ('actor', models.CharField(blank=True, max_length=150)),
                ('address', models.CharField(blank=True, max_length=50)),
                ('action', models.CharField(choices=[('logged_in', 'logged in'), ('logged_out', 'logged out'), ('opened', 'opened'), ('searched', 'searched'), ('exported', 'exported'), ('shared', 'shared'), ('revoked', 'revoked'), ('accepted', 'accepted'), ('started', 'started'), ('answered', 'answered'), ('cancelled', 'cancelled'), ('added', 'added'), ('changed', 'changed'), ('removed', 'removed'), ('pruned', 'pruned'), ('revealed', 'revealed')], max_length=20)),
                ('kind', models.CharField(choices=[('user', 'User'), ('team', 'Team'), ('invitation', 'Invitation'), ('location', 'Location'), ('project', 'Project'), ('run', 'Run'), ('checkpoint', 'Checkpoint'), ('call', 'Call'), ('comparison', 'Comparison'), ('search', 'Search'), ('job', 'Job'), ('sweep', 'Sweep'), ('question', 'Question'), ('collection', 'Collection'), ('share', 'Share link'), ('host', 'Host'), ('limits', 'Daily limits'), ('audit', 'Audit trail'), ('token', 'API token'), ('database', 'Database')], max_length=20)),
                ('key', models.CharField(blank=True, max_length=200)),
                ('detail', models.CharField(blank=True, max_length=300)),
                ('result', models.CharField(choices=[('done', 'done'), ('not_done', 'not done')], default='done', max_length=20)),
                ('token', models.PositiveBigIntegerField(blank=True, null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['actor', '-id'], name='audit_by_actor'), models.Index(fields=['key', '-id'], name='audit_by_key'), models.Index(fields=['at'], name='audit_by_time')],
            },
        ),
        migrations.CreateModel(
            name='AuditRetention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('before', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='BucketObject',
            fields=[
                ('key', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('size', models.PositiveBigIntegerField()),
                ('digest', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('written', 'Written'), ('named', 'Named'), ('unredacted', 'Unredacted'), ('unused', 'Unused')], default='written', max_length=10)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'named'), _negated=True), fields=['state'], name='unnamed_objects')],
            },
        ),
        migrations.CreateModel(
            name='Collection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('description', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('made_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name', 'pk'],
            },
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('location_uid', models.UUIDField()),
                ('run_key', models.CharField(blank=True, max_length=200)),
                ('checkpoint_id', models.CharField(blank=True, max_length=300)),
                ('text', models.TextField(blank=True)),
                ('written_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('edited_at', models.DateTimeField(blank=True, null=True)),
                ('resolved_at', models.DateTimeField(blank=True, null=True)),
                ('other_checkpoint_id', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('other_location_uid', models.UUIDField(blank=True, null=True)),
                ('mentioned', models.ManyToManyField(blank=True, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('question', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='viewer.question')),
                ('reply_to', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='replies', to='viewer.comment')),
                ('resolved_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('written_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['pk'],
                'indexes': [models.Index(fields=['location_uid', 'run_key'], name='comments_of_run'), models.Index(fields=['location_uid', 'checkpoint_id'], name='comments_of_checkpoint')],
            },
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('request_digest', models.CharField(max_length=64)),
                ('uid', models.UUIDField(default=uuid.uuid4, editable=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'key'), name='unique_idempotency_key')],
            },
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=150, unique=True)),
                ('quotas', models.JSONField(blank=True, db_default={}, default=dict)),
                ('members', models.ManyToManyField(blank=True, related_name='teams', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='MutedRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('location_uid', models.UUIDField()),
                ('run_key', models.CharField(max_length=200)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='muted_runs', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'location_uid', 'run_key'), name='unique_muted_run')],
            },
        ),
        migrations.CreateModel(
            name='NotificationTarget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('mail', 'Mail'), ('webhook', 'Webhook')], max_length=20)),
                ('address', models.CharField(max_length=500)),
                ('secret', models.CharField(blank=True, max_length=100)),
                ('of_questions', models.BooleanField(default=True)),
                ('of_jobs', models.BooleanField(default=True)),
                ('of_limits', models.BooleanField(default=True)),
                ('of_mentions', models.BooleanField(default=True)),
                ('of_all_jobs', models.BooleanField(default=False)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notification_targets', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'kind'), name='unique_notification_target')],
            },
        ),
        migrations.CreateModel(
            name='Presence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run_uid', models.UUIDField()),
                ('server', models.UUIDField()),
                ('seen_at', models.DateTimeField()),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run_uid', 'user', 'server'), name='unique_presence')],
            },
        ),
        migrations.CreateModel(
            name='RecordedCode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('commit', models.CharField(blank=True, max_length=64)),
                ('is_dirty', models.BooleanField(null=True)),
                ('is_complete', models.BooleanField(default=True)),
                ('files', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='CollectionItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('checkpoint', 'Checkpoint'), ('message', 'Message'), ('call', 'Model call')], max_length=20)),
                ('location_uid', models.UUIDField()),
                ('run_key', models.CharField(max_length=200)),
                ('checkpoint_id', models.CharField(max_length=300)),
                ('part', models.CharField(blank=True, max_length=300)),
                ('title', models.CharField(blank=True, max_length=300)),
                ('note', models.TextField(blank=True)),
                ('expected', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('collection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='items', to='viewer.collection')),
                ('made_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['pk'],
                'indexes': [models.Index(fields=['location_uid'], name='items_of_location')],
                'constraints': [models.UniqueConstraint(fields=('collection', 'kind', 'location_uid', 'run_key', 'checkpoint_id', 'part'), name='unique_collection_item')],
            },
        ),
        migrations.CreateModel(
            name='Host',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('instance', models.CharField(blank=True, default='', max_length=400)),
                ('address', models.CharField(blank=True, default='', max_length=300)),
                ('version', models.CharField(blank=True, default='', max_length=50)),
                ('python_version', models.CharField(blank=True, default='', max_length=50)),
                ('engines', models.JSONField(blank=True, default=dict)),
                ('folders', models.JSONField(blank=True, default=list)),
                ('slots', models.PositiveIntegerField(default=0)),
                ('load', models.FloatField(blank=True, null=True)),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('is_up', models.BooleanField(default=False)),
                ('clock_difference', models.FloatField(blank=True, null=True)),
                ('is_drained', models.BooleanField(default=False)),
                ('fault', models.JSONField(blank=True, null=True)),
                ('launchers', models.JSONField(blank=True, db_default={}, default=dict)),
                ('pools', models.ManyToManyField(blank=True, related_name='hosts', to='viewer.pool')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_hash', models.CharField(max_length=64, unique=True)),
                ('level', models.PositiveSmallIntegerField(blank=True, choices=[(1, 'Viewer'), (2, 'Operator'), (3, 'Admin')], null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('location', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='viewer.location')),
                ('made_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='viewer.team')),
                ('used_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at', '-pk'],
                'constraints': [models.CheckConstraint(condition=models.Q(('level__isnull', False), models.Q(('location', None), ('team__isnull', False)), _connector='OR'), name='invitation_to_team_or_role')],
            },
        ),
        migrations.CreateModel(
            name='Role',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('level', models.PositiveSmallIntegerField(choices=[(1, 'Viewer'), (2, 'Operator'), (3, 'Admin')])),
                ('location', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='viewer.location')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='roles', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='viewer.team')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('team', None), ('user__isnull', False)), models.Q(('team__isnull', False), ('user', None)), _connector='OR'), name='role_of_team_or_user'), models.UniqueConstraint(django.db.models.functions.comparison.Coalesce('team', 0), django.db.models.functions.comparison.Coalesce('user', 0), django.db.models.functions.comparison.Coalesce('location', 0), name='unique_role')],
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.CharField(choices=[('question.waiting', 'A question waits for an answer.'), ('job.ended', 'A job has ended.'), ('limit.reached', 'A job was stopped because a limit was reached.'), ('comment.mention', 'Somebody mentioned you in a comment.')], max_length=20)),
                ('key', models.CharField(max_length=60)),
                ('path', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('due_at', models.DateTimeField(blank=True, db_index=True, default=django.utils.timezone.now, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.CharField(blank=True, max_length=200)),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='viewer.notificationtarget')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('target', 'key'), name='unique_notification')],
            },
        ),
        migrations.CreateModel(
            name='HostRequest',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=100)),
                ('data', models.BinaryField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('taken_at', models.DateTimeField(blank=True, null=True)),
                ('reply', models.BinaryField(blank=True, null=True)),
                ('refused_as', models.CharField(blank=True, default='', max_length=100)),
                ('actor', models.JSONField(blank=True, null=True)),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='requests', to='viewer.host')),
            ],
        ),
        migrations.CreateModel(
            name='PoolMember',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('identity', models.CharField(blank=True, max_length=100)),
                ('server_digest', models.CharField(blank=True, max_length=64)),
                ('project_digest', models.CharField(blank=True, max_length=64)),
                ('refusal', models.JSONField(blank=True, null=True)),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='viewer.host')),
                ('location', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='viewer.location')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('location', 'host'), name='unique_pool_member')],
            },
        ),
        migrations.RunPython(add_default_host),
        migrations.AlterField(
            model_name='job',
            name='kind',
            field=models.CharField(choices=[('resume', 'Resume'), ('fork', 'Fork'), ('run', 'New run'), ('publish', 'Publish'), ('score', 'Score'), ('replay', 'Replay')], max_length=20),
        ),
        migrations.AlterField(
            model_name='location',
            name='path',
            field=models.CharField(max_length=1000),
        ),
        migrations.AlterField(
            model_name='location',
            name='store_kind',
            field=models.CharField(choices=[('json', 'JSON folder'), ('sqlite', 'SQLite file'), ('states', 'SQLite file of states'), ('postgresql', 'PostgreSQL database'), ('saver', 'checkpoint saver')], max_length=20),
        ),
        migrations.AlterField(
            model_name='question',
            name='kind',
            field=models.CharField(choices=[('human_input', 'output review'), ('human_feedback', 'feedback'), ('text_input', 'input'), ('program_input', "input for the project's code"), ('interrupt', 'interrupt of a graph'), ('tool_call', 'call of a tool')], max_length=20),
        ),
        migrations.AddField(
            model_name='job',
            name='host',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='viewer.host'),
        ),
        migrations.AddField(
            model_name='job',
            name='code',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='viewer.recordedcode'),
        ),
        migrations.AddField(
            model_name='job',
            name='queued_in',
            field=models.CharField(blank=True, db_default='', default='', max_length=100),
        ),
        migrations.AddField(
            model_name='job',
            name='requester_key',
            field=models.PositiveBigIntegerField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='continued_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='job',
            name='kept_keys',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='job',
            name='isolation',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='location',
            name='host',
            field=models.ForeignKey(default=DEFAULT_HOST, on_delete=django.db.models.deletion.PROTECT, related_name='locations', to='viewer.host'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='location',
            name='pool',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='locations', to='viewer.pool'),
        ),
        migrations.AddField(
            model_name='preflightcheck',
            name='commit',
            field=models.CharField(blank=True, db_default='', max_length=64),
        ),
        migrations.AddField(
            model_name='project',
            name='host',
            field=models.ForeignKey(default=DEFAULT_HOST, on_delete=django.db.models.deletion.PROTECT, related_name='projects', to='viewer.host'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='project',
            name='tool_choices',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='project',
            name='kept_keys',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='project',
            name='isolation',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='storedcopy',
            name='object',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='copies', to='viewer.bucketobject'),
        ),
        migrations.AddField(
            model_name='sweep',
            name='is_of_runs',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='sweep',
            name='collection',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='sweeps', to='viewer.collection'),
        ),
        migrations.AddConstraint(
            model_name='location',
            constraint=models.UniqueConstraint(fields=('host', 'path'), name='unique_path_of_host'),
        ),
        migrations.AddConstraint(
            model_name='storedcopy',
            constraint=models.UniqueConstraint(condition=models.Q(('object__isnull', False)), fields=('object',), name='one_copy_of_an_object'),
        ),
        migrations.RunPython(finish),
    ]

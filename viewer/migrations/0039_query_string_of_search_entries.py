from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('viewer', '0038_state_of_listed_runs'),
    ]

    operations = [
        migrations.RenameField(
            model_name='searchentry',
            old_name='place',
            new_name='query_string',
        ),
    ]

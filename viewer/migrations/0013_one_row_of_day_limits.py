"""Make the database hold one row with the limits of a day. A row that exists is kept."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('viewer', '0012_message_codes'),
    ]

    operations = [
        migrations.AddField(
            model_name='daylimits',
            name='is_current',
            field=models.BooleanField(default=True, editable=False, unique=True),
        ),
        migrations.AddConstraint(
            model_name='daylimits',
            constraint=models.CheckConstraint(condition=models.Q(('is_current', True)), name='day_limits_are_current'),
        ),
    ]

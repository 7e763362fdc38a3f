from django.db import migrations, models


def fill(apps, schema_editor):
    jobs = apps.get_model("viewer", "Job").objects.using(schema_editor.connection.alias)
    jobs.filter(status="queued").update(requester_key=models.F("requested_by"))


class Migration(migrations.Migration):
    dependencies = [("viewer", "0022_collection_of_sweeps")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="requester_key",
            field=models.PositiveBigIntegerField(blank=True, editable=False, null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0033_index_of_branches")]

    operations = [
        migrations.AddField(
            model_name="sweep",
            name="score",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("viewer", "0028_comments")]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="action",
            field=models.CharField(
                choices=[
                    ("logged_in", "logged in"),
                    ("logged_out", "logged out"),
                    ("opened", "opened"),
                    ("searched", "searched"),
                    ("exported", "exported"),
                    ("shared", "shared"),
                    ("revoked", "revoked"),
                    ("accepted", "accepted"),
                    ("started", "started"),
                    ("answered", "answered"),
                    ("cancelled", "cancelled"),
                    ("added", "added"),
                    ("changed", "changed"),
                    ("removed", "removed"),
                    ("pruned", "pruned"),
                    ("revealed", "revealed"),
                ],
                max_length=20,
            ),
        ),
    ]

"""Store messages as codes and values, in one column each, instead of English text beside its values."""

import json
import re
from pathlib import Path
from typing import Any

from django.db import migrations, models

# The code of each text that the versions before could store.
CODES: dict[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text())
# The column of each model that held the text. The values were in another one, such as "error_words".
COLUMNS = {"Job": "error", "PreflightCheck": "error", "Problem": "reason", "Location": "read_error"}
BATCH = 500
CAN_RUN = "May start, cancel and answer runs, and change what they run with"
PLACEHOLDER = re.compile(r"%(?:%|\((\w+)\)([dsr]))")


def store_codes(apps: Any, schema_editor: Any) -> None:
    """Store the code and the values of each message; of a text that no code is known for, the text."""
    for name, column in COLUMNS.items():
        rows = apps.get_model("viewer", name).objects.exclude(**{f"{column}_text": ""})
        pks = list(rows.order_by("pk").values_list("pk", flat=True))
        for at in range(0, len(pks), BATCH):
            changed = list(rows.filter(pk__in=pks[at : at + BATCH]))
            for row in changed:
                text, words = getattr(row, f"{column}_text"), getattr(row, f"{column}_words")
                setattr(row, column, message_of(text, words))
            rows.model.objects.bulk_update(changed, [column])


def message_of(text: str, words: Any) -> dict[str, Any]:
    """The message that was stored as this English text and, where it has values, these words."""
    if words and filled(words) == text:
        return message_in(words)
    return {"code": CODES[text], "values": {}} if text in CODES else plain_text(text)


def message_in(words: Any) -> dict[str, Any]:
    """The message of a template and its values, which may be messages."""
    if words["text"] not in CODES:
        return plain_text(filled(words))
    return {"code": CODES[words["text"]], "values": {n: value_in(v) for n, v in words["values"].items()}}


def value_in(value: Any) -> Any:
    """A value, in which messages have codes."""
    if isinstance(value, list):
        return [message_in(one) for one in value]
    return message_in(value) if isinstance(value, dict) else value


def plain_text(text: str) -> dict[str, Any]:
    """A message that says this text."""
    return {"code": "plain_text", "values": {"text": text}}


def filled(words: Any) -> str:
    """The template with its values."""
    if not words["values"]:
        return str(words["text"])

    def value_at(found: re.Match[str]) -> str:
        value = words["values"].get(found[1], found[0]) if found[1] else "%"
        if isinstance(value, dict):
            return filled(value)
        if isinstance(value, list):
            return " ".join(map(filled, value))
        return repr(value) if found[2] == "r" else str(value)

    return PLACEHOLDER.sub(value_at, words["text"])


def rename_permission(apps: Any, schema_editor: Any) -> None:
    """Rename the permission to run, and keep it for its holders."""
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="viewer")
    former, present = (permissions.filter(codename=name).first() for name in ("may_run", "can_run"))
    if former is None:
        return
    if present is None:
        former.codename = "can_run"
        former.save()
        return
    for user in former.user_set.all():
        user.user_permissions.add(present)
    for group in former.group_set.all():
        group.permissions.add(present)
    former.delete()


class Migration(migrations.Migration):
    dependencies = [("viewer", "0011_spool_names"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        *(migrations.RenameField(name, column, f"{column}_text") for name, column in COLUMNS.items()),
        *(
            migrations.AddField(name, column, models.JSONField(blank=True, null=True))
            for name, column in COLUMNS.items()
        ),
        migrations.RunPython(store_codes, migrations.RunPython.noop),
        *(migrations.RemoveField(name, f"{column}_text") for name, column in COLUMNS.items()),
        *(migrations.RemoveField(name, f"{column}_words") for name, column in COLUMNS.items()),
        migrations.AlterField("problem", "reason", models.JSONField()),
        migrations.RunPython(rename_permission, migrations.RunPython.noop),
        migrations.AlterModelOptions(
            "job", {"ordering": ["-created_at"], "permissions": [("can_run", CAN_RUN)]}
        ),
    ]

"""A column that holds a message for people."""

from __future__ import annotations

from typing import Any

from django.db import models

from viewer.messages.message import UserMessage, message_from


class UserMessageField(models.JSONField):
    """A ``UserMessage``, stored as its code and values in JSON; None if there is none."""

    def deconstruct(self) -> Any:
        """As a plain JSON field, so that migrations do not depend on this class."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> UserMessage | None:
        """The stored message."""
        return message_from(super().from_db_value(value, expression, connection))

    def get_prep_value(self, value: Any) -> Any:
        """The stored form of a message."""
        return super().get_prep_value(value.as_data() if isinstance(value, UserMessage) else value)

    def value_to_string(self, obj: models.Model) -> Any:
        """The serialized form of a message."""
        return self.get_prep_value(self.value_from_object(obj))

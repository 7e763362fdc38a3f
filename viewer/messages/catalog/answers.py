"""Why an answer does not fit the schema that its question gives."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "answers.at_place": _("“%(place)s” of the answer: %(why)s"),
    "answers.does_not_fit": _("This does not fit the schema of the answer: %(why)s"),
    "answers.missing": _("This value is missing."),
    "answers.one_of": _("This must be one of: %(values)s"),
    "answers.type": _("This must be of the JSON type %(type)s."),
}

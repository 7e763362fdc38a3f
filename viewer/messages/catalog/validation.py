"""What a typed text must be. The phrases follow "must be"."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "validation.must_be": _("This must be %(wanted)s."),
    "validation.named_must_be": _("%(name)s must be %(wanted)s, not %(value)s."),
    "validation.must_be_not": _("must be %(wanted)s, not %(value)s"),
    "validation.whole_number_from": _("a whole number of %(least)d or more"),
    "validation.whole_number_to": _("a whole number of %(most)d or less"),
    "validation.number_from": _("a number of %(least)s or more"),
    "validation.number_to": _("a number of %(most)s or less"),
    "validation.day": _("a day such as 2026-01-31"),
    "validation.one_line": _("one line of 1 to %(most)d characters"),
    "validation.one_line_or_empty": _("one line of at most %(most)d characters"),
    "validation.text": _("a text in UTF-8 of at most %(most)d characters"),
    "validation.pair": _("NAME=VALUE with a name of at most %(most)d characters"),
    "validation.path": _("a path"),
    "validation.folder": _("the path of a folder"),
    "validation.file": _("the path of a file that can be read"),
    "validation.readable_file": _("the path of a file that can be read, of at most %(most)d bytes"),
    "validation.program": _("the path of a file that can be executed"),
}

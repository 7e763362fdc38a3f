"""What can be wrong with a PostgreSQL location."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "postgresql.connection_lost": _("The connection to the server was lost. Try again."),
    "postgresql.no_answer": _("The server does not respond. Try again."),
    "postgresql.no_permission": _(
        "The role may not read LangGraph's tables: grant it USAGE on their schema and SELECT on them."
    ),
    "postgresql.no_table": _("The database has no table “%(table)s” in the role's search path."),
    "postgresql.not_configured": _(
        "The setting POSTGRESQL_LOCATIONS has no connection with this name. Add it, and restart Forkline."
    ),
    "postgresql.not_connected": _("The server refused the connection or could not be reached: %(why)s."),
    "postgresql.statement_failed": _("The server could not execute a statement (error %(code)s)."),
    "postgresql.tables_changed": _("The tables changed while they were read. Try again."),
    "postgresql.timed_out": _("A statement took more than %(most)d seconds. Try again."),
}

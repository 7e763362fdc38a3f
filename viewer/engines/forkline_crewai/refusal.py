"""Why a run is not begun."""


class Refused(Exception):
    """Nothing has run and nothing was paid. The message tells why, and what to do."""

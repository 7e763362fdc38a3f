"""Why a socket is closed. The page reads the codes in static/js/live.js."""

# Nothing more follows: the page does not reconnect.
NORMAL_CLOSURE = 1000
# The page reconnects, and receives what it missed.
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013
# The page does not reconnect after these.
LOGGED_OUT = 4401
RIGHT_CHANGED = 4403
# The job or the location was removed.
NOT_THERE = 4404

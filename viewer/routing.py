"""Every socket's address."""

from django.urls import path, re_path

from viewer import consumers

websocket_urlpatterns = [
    path("ws/locations/<uuid:uid>/", consumers.LocationConsumer.as_asgi()),
    # ?after=<seq> replays what came after that event.
    path("ws/jobs/<uuid:pk>/", consumers.JobConsumer.as_asgi()),
    # Without it, an address that nobody serves is an error in the log.
    re_path(r"", consumers.NoSuchSocket.as_asgi()),
]

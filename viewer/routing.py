"""Every socket's address."""

from django.urls import path

from viewer import consumers

websocket_urlpatterns = [
    path("ws/locations/<uuid:uid>/", consumers.LocationConsumer.as_asgi()),
    # ?after=<seq> replays what came after that event.
    path("ws/jobs/<uuid:pk>/", consumers.JobConsumer.as_asgi()),
]

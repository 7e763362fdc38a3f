"""Every socket's address."""

from django.urls import path, re_path

from viewer.web.live import consumers

websocket_urlpatterns = [
    path("ws/locations/<uuid:uid>/", consumers.LocationConsumer.as_asgi()),
    path("ws/home/", consumers.HomeConsumer.as_asgi()),
    # ?after=<seq> sends the events after that one.
    path("ws/jobs/<uuid:pk>/", consumers.JobConsumer.as_asgi()),
    # Without a login: the token opens the object of its link only.
    path("ws/shared/<str:token>/", consumers.ShareConsumer.as_asgi()),
    # Without it, an unknown URL is logged as an error.
    re_path(r"", consumers.NoSuchSocket.as_asgi()),
]

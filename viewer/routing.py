"""Every socket's address."""

from django.urls import path, re_path

from viewer.consumers import home, job, location, rows, share

websocket_urlpatterns = [
    path("ws/locations/<uuid:uid>/", location.LocationConsumer.as_asgi()),
    path("ws/home/", home.HomeConsumer.as_asgi()),
    # ?after=<seq> sends the events after that one.
    path("ws/jobs/<uuid:pk>/", job.JobConsumer.as_asgi()),
    # Without a login: the token opens the object of its link only.
    path("ws/shared/<str:token>/", share.ShareConsumer.as_asgi()),
    # Without it, an unknown URL is logged as an error.
    re_path(r"", rows.NoSuchSocket.as_asgi()),
]

"""Every socket's address."""

from django.urls import path, re_path

from viewer.web.live.consumer import NoSuchSocket, PageConsumer

websocket_urlpatterns = [
    path("ws/locations/<uuid:uid>/", PageConsumer.as_asgi(), {"shows": "location"}),
    path("ws/home/", PageConsumer.as_asgi(), {"shows": "home"}),
    # ?after=<seq> sends the events after that one.
    path("ws/jobs/<uuid:pk>/", PageConsumer.as_asgi(), {"shows": "job"}),
    # Without a login: the token opens the object of its link only.
    path("ws/shared/<str:token>/", PageConsumer.as_asgi(), {"shows": "share"}),
    # Without it, an unknown URL is logged as an error.
    re_path(r"", NoSuchSocket.as_asgi()),
]

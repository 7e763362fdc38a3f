"""The server's entry: pages through Django, sockets through Channels."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
pages = get_asgi_application()

from django.conf import settings  # noqa: E402

from checkpoint_site.hosts import ServedSockets  # noqa: E402
from viewer.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": pages,
        "websocket": ServedSockets(
            OriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)), settings.ALLOWED_ORIGINS)
        ),
    }
)

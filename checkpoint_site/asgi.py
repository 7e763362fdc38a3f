"""The ASGI application: pages through Django, sockets through Channels."""

import os

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402

from checkpoint_site.middleware.pages import AvailableSockets  # noqa: E402
from checkpoint_site.middleware.requests import (  # noqa: E402
    AllowedHostSockets,
    AllowedOriginSockets,
    over_tls,
    with_body_limit,
    with_header_limit,
)
from checkpoint_site.middleware.throttle import throttled_share_sockets  # noqa: E402
from checkpoint_site.page_threads import Pages  # noqa: E402
from viewer.data_folder.locks import use  # noqa: E402
from viewer.web.live.consumer import websocket_urlpatterns  # noqa: E402

if settings.DATA_DIR.is_dir():
    use()
application = over_tls(
    with_header_limit(
        ProtocolTypeRouter(
            {
                "http": with_body_limit(Pages()),
                "websocket": AllowedHostSockets(
                    AvailableSockets(
                        AllowedOriginSockets(
                            throttled_share_sockets(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
                            settings.ALLOWED_ORIGINS,
                        )
                    )
                ),
            }
        )
    )
)

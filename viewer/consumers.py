"""The sockets: what has changed, sent to open pages."""

from channels.generic.websocket import AsyncWebsocketConsumer


class LocationConsumer(AsyncWebsocketConsumer):
    """Stub."""


class JobConsumer(AsyncWebsocketConsumer):
    """Stub."""

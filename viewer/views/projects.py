"""Stub."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def edit(request: HttpRequest, uid: UUID) -> HttpResponse:
    raise NotImplementedError

"""Stub."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    raise NotImplementedError


def rows(request: HttpRequest, uid: UUID) -> HttpResponse:
    raise NotImplementedError

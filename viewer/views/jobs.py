"""Stub."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def index(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


def show(request: HttpRequest, pk: UUID) -> HttpResponse:
    raise NotImplementedError


def cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    raise NotImplementedError

"""Stub."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def show(request: HttpRequest, pk: int) -> HttpResponse:
    raise NotImplementedError


def raw(request: HttpRequest, pk: int) -> HttpResponse:
    raise NotImplementedError

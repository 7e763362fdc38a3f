"""Stub."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def fork(request: HttpRequest, pk: int) -> HttpResponse:
    raise NotImplementedError


def plan(request: HttpRequest, pk: int) -> HttpResponse:
    raise NotImplementedError


def resume(request: HttpRequest, pk: int) -> HttpResponse:
    raise NotImplementedError

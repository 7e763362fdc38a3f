"""Stub."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def index(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


def add(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    raise NotImplementedError


def refresh(request: HttpRequest, uid: UUID) -> HttpResponse:
    raise NotImplementedError

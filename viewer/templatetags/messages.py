"""Stored messages in templates."""

from django import template

from viewer.messages.translation import translate

register = template.Library()
register.filter("message", translate)

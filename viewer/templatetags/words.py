"""The filter that translates stored messages."""

from django import template

from viewer.messages import labels

register = template.Library()
register.filter("told", labels.told)

"""What templates tell of what is stored as words."""

from django import template

from viewer.messages import labels

register = template.Library()
register.filter("told", labels.told)

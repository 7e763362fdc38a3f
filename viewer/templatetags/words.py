"""What templates tell of what is stored as words."""

from django import template

from viewer import wording

register = template.Library()
register.filter("told", wording.told)

"""``manage.py login_link``: one more link that logs in, once."""

from typing import Any

from django.core.management.base import BaseCommand

from viewer.data_folder import make_ready
from viewer.login_links import login_link, owner


class Command(BaseCommand):
    help = "Print a link that logs in, once. It holds for a day."

    def handle(self, *args: Any, **options: Any) -> None:
        make_ready()
        self.stdout.write(login_link(owner()))

"""Sends random requests to every address, by senders with every role, about what they may and may not see.

Each request is sent twice: while another team's location exists, and after it was deleted. Passes if both
responses are equal byte for byte, except for random tokens, with the same number of queries, if no response
has a secret or a status of 500 or more, if no row or file of the other team changes, and if what a role does
not allow is refused and stores nothing.
"""

import inspect
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder

if TYPE_CHECKING:
    from django.test import Client

    from viewer.models import Level, Location

ROUNDS = 2
KINDS = ("2xx", "3xx", "4xx", "5xx")
METHODS = ("head", "put", "patch", "delete", "options", "get", "post")
REFUSED = {302, 401, 403, 404, 405, 422, 429}
# Tables that a refused request may write to.
OF_REQUESTS = {"django_session", "viewer_auditentry", "viewer_attemptcount", "usersessions_usersession"}
OF_REQUESTS |= {"viewer_apitoken"}
OF_TIME = {"Expires", "Content-Length"}
# What differs between two responses with the same content.
CHANGING = re.compile(
    r"csrfmiddlewaretoken\" value=\"[^\"]*\"|\"X-CSRFToken\": \"[^\"]*\"|<time.*?</time>|nonce-[^'\"]*"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}|fkl_[\w-]{43}|whsec_[\w+/=]+|invitation/[\w-]+|shared/[\w-]+"
    r"|\d{4}-\d\d-\d\dT[\d:.+Z]+|forkline_(csrf|session)_\d+=[^;]*|expires=[^;]*|sesame=[^&\"]*"
)
# In values of parameters, headers and bodies.
JUNK = (
    *(
        "",
        " ",
        "0",
        "-1",
        "1e9",
        "9" * 30,
        "true",
        "null",
        "[]",
        "{}",
        "'",
        '"',
        "<b>",
        "%",
        "\x00",
        "\ud800",
    ),
    *("../../etc/passwd", "/etc/passwd", "a" * 5000, "é", "\u202e", "1\r\nX: y", "٣", "research", "\ud800"),
    *("2026-11-28", "9999-99-99", "admin", "1", "2", "3", "on", "json", "markdown", "person", "team"),
)
HEADERS = {
    "HX-Request": ("true",),
    "HX-Target": ("detail", "x"),
    "HX-Current-URL": ("http://[", "/jobs/", ""),
    "Accept-Language": ("de", "xx;q=9", ""),
    "X-HTTP-Method-Override": ("DELETE",),
    "X-Forwarded-For": ("127.0.0.1", "::1", "x"),
    "Range": ("bytes=0-0",),
    "If-None-Match": ("*",),
    "Idempotency-Key": ("a", "é", ""),
    "Authorization": ("Basic x", "Bearer", "Bearer fkl_x"),
    "Cookie": ("a=b", "forkline_session_8000=x"),
}
NAMES = re.compile(r"""(?:POST|GET)(?:\.get(?:list)?)?[(\[]"(\w+)"|\bname="([\w-]+)"[ >]""")


@dataclass(frozen=True)
class Sender:
    """Somebody who sends requests. ``level`` is what they have on the own location."""

    name: str
    client: "Client"
    level: int = 0
    # The highest level that they have anywhere.
    highest: int = 0
    is_program: bool = False


@dataclass
class Stage:
    """Two locations with rows of every kind. ``values`` are ids and names of the other team's rows."""

    own: "Location"
    own_addresses: dict[str, str]
    other: "Location"
    other_addresses: dict[str, str]
    values: list[str]
    own_values: list[str]
    keys: set[str] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Attack:
    """One request."""

    route: str
    address: str
    method: str
    data: Any
    content_type: str
    headers: dict[str, str]

    def __str__(self) -> str:
        return f"{self.method} {self.address[:300]} {str(self.data)[:500]} {self.headers}"


@dataclass(frozen=True)
class Reply:
    """What a request led to. ``written`` are the tables that it wrote to."""

    status: int
    text: str
    queries: int
    written: frozenset[str]
    changed: str


# The stage.


def staged(folder: Path) -> Stage:
    """Create the locations. Needs Django to be set up."""
    from tests.search.indexed import index_all
    from tests.views.access.test_roles import HIDDEN, hide
    from tests.views.access.test_urls import addresses_at
    from tests.views.forking import create_location

    own = create_location((folder / "newsroom").resolve())
    own_addresses = all_addresses(own, addresses_at(own))
    index_all()
    first = large_keys()
    other = create_location((folder / HIDDEN).resolve())
    addresses = hide(other)
    from viewer.models import Project, Role, Team

    # Those who wrote something there have a role there only.
    Role.objects.filter(location=None).delete()
    assert other.project
    Project.objects.filter(pk=other.project.pk).update(entry_points=[f"{HIDDEN}:build"])
    Team.objects.filter(name="team of otto").update(name=HIDDEN)
    stage = Stage(own, own_addresses, other, all_addresses(other, addresses), [], [])
    for model in models_of_rows():
        for row in model._base_manager.all():
            is_other = belongs_to(row, first)
            if is_other:
                stage.keys.add(f"{model._meta.db_table} {row.pk}")
            (stage.values if is_other else stage.own_values).extend(values_of(row))
    stage.values = sorted(set(stage.values) - set(stage.own_values))
    stage.own_values = sorted(set(stage.own_values))
    return stage


def large_keys() -> int:
    """Let the rows that are created next have keys that no other row has. Return the first. Needs SQLite."""
    from django.db import connection

    first = 700_000
    with connection.cursor() as cursor:
        for model in models_of_rows():
            table = model._meta.db_table
            if model._meta.pk.get_internal_type() not in {"AutoField", "BigAutoField"}:
                continue
            known = cursor.execute("UPDATE sqlite_sequence SET seq = %s WHERE name = %s", [first, table])
            if not known.rowcount:
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, first])
    return first


def models_of_rows() -> list[Any]:
    from django.apps import apps

    return [model for model in apps.get_app_config("viewer").get_models() if model._meta.managed]


def belongs_to(row: Any, first: int) -> bool:
    """Whether a row was created after keys became large, or is about one that was."""
    keys = [row.pk, *(getattr(row, one.attname) for one in row._meta.fields if one.is_relation)]
    return any(isinstance(key, int) and key >= first for key in keys)


def values_of(row: Any) -> Iterator[str]:
    """The ids and short texts of a row, as a parameter may name it."""
    yield str(row.pk)
    for one in row._meta.fields:
        value = getattr(row, one.attname)
        if isinstance(value, UUID) or (isinstance(value, str) and 1 < len(value) < 200):
            yield str(value)


def all_addresses(location: "Location", addresses: dict[str, str]) -> dict[str, str]:
    """Add those of the HTTP interface and of logging in."""
    from django.urls import reverse

    from tests.api.conftest import api_addresses
    from tests.views.access.test_urls import ALL
    from viewer.models import Checkpoint

    checkpoint = Checkpoint.objects.filter(location=location).earliest("pk")
    found = {**addresses, **api_addresses(checkpoint)}
    given = {"token": "x" * 43, "provider_id": "provider", "pk": checkpoint.pk}
    for name, pattern in ALL.items():
        if name not in found:
            found[name] = reverse(name, kwargs={part: given[part] for part in pattern.pattern.converters})
    return found


def browser(**headers: str) -> "Client":
    """Return a client without a login."""
    from django.conf import settings
    from django.test import Client

    host = f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"
    return Client(raise_request_exception=False, headers={"Host": host, **headers})


def program(token: str) -> "Client":
    """Return a client that sends this token."""
    return browser(Authorization=f"Bearer {token}")


def senders(stage: Stage, folder: Path) -> list[Sender]:
    """Return people with each role, programs with tokens of each kind, and visitors without a login."""
    from django.contrib.auth.models import User

    from tests.views.forking import create_location
    from viewer.models import Level, Role, ShareLink, Team
    from viewer.presentation.share_links import Subject, find_shared, make_link
    from viewer.records.accounts import make_token

    third = create_location((folder / "third").resolve())

    def person(name: str, level: "Level | None", location: "Location", *, in_team: bool = False) -> User:
        user = User.objects.create_user(name)
        if in_team and level is not None:
            team = Team.objects.create(name=f"team of {name}")
            team.members.add(user)
            Role.objects.create(team=team, location=location, level=level)
        elif level is not None:
            Role.objects.create(user=user, location=location, level=level)
        return user

    def logged_in(user: User) -> "Client":
        client = browser()
        client.force_login(user)
        return client

    found = [Sender("visitor", browser())]
    for level in (None, *Level):
        user = person(f"person {level}", level, stage.own, in_team=level == Level.OPERATOR)
        found.append(
            Sender(
                f"person {level.name.lower() if level else 'without a role'}",
                logged_in(user),
                level or 0,
                level or 0,
            )
        )
    elsewhere = person("admin elsewhere", Level.ADMIN, third)
    found.append(Sender("admin of another location", logged_in(elsewhere), highest=Level.ADMIN))
    gone = person("gone", Level.ADMIN, stage.own)
    found.append(Sender("deactivated admin", logged_in(gone)))
    _token, of_gone = make_token(gone, "ci", Level.ADMIN)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    found.append(Sender("token of a deactivated person", program(of_gone), is_program=True))

    everything = User.objects.create_superuser("owner of all")
    for level in Level:
        _token, text = make_token(everything, "ci", level, [stage.own])
        found.append(Sender(f"token {level.name.lower()}", program(text), level, level, is_program=True))
    token, text = make_token(everything, "old", Level.ADMIN)
    token.revoke()
    found.append(Sender("revoked token", program(text), is_program=True))

    run = stage.own.runs.get()
    shared = find_shared(Subject(ShareLink.Kind.RUN, str(run.uid)))
    assert shared
    _link, text = make_link(shared, everything)
    visitor = browser(**{"User-Agent": "Mozilla/5.0 Firefox/140.0"})
    assert visitor.get(f"/shared/{text}/").status_code == 200
    found.append(Sender("visitor with a share link", visitor))
    return found


# The requests.


@cache
def names_in(path: Path) -> list[str]:
    """Return the names of the parameters that a view or a template knows."""
    return [a or b for a, b in NAMES.findall(path.read_text())]


@cache
def parameter_names() -> list[str]:
    """Return the names of all parameters that views and templates know."""
    sources = [*(ROOT / "viewer/web").rglob("*.py"), *(ROOT / "templates").rglob("*.html")]
    return sorted({name for path in sources for name in names_in(path)})


@cache
def names_of(route: str) -> list[str]:
    """Return the names of the parameters that are in the module of a route's view."""
    from tests.views.access.test_urls import ALL

    module = inspect.getmodule(inspect.unwrap(ALL[route].callback))
    return names_in(Path(str(getattr(module, "__file__", "")))) or parameter_names()


def made(chance: random.Random, stage: Stage, route: str, *, of_other: bool) -> Attack:
    """Return a random request to an address."""
    from tests.views.access.test_urls import FORMS, SENT

    address = (stage.other_addresses if of_other else stage.own_addresses)[route]

    def value() -> str:
        pool = chance.choice((stage.values, stage.values, stage.own_values, JUNK))
        return chance.choice(pool)

    def pairs() -> list[tuple[str, str]]:
        names = names_of(route) if chance.random() < 0.7 else parameter_names()
        return [(chance.choice(names), value()) for _ in range(chance.choice((0, 1, 3, 8)))]

    query = urlencode(pairs(), errors="replace")
    if query:
        address += f"{'&' if '?' in address else '?'}{query}"
    usual = "post" if route in SENT or (route in FORMS and chance.random() < 0.5) else "get"
    method = usual if chance.random() < 0.8 else chance.choice(METHODS)
    headers = {
        name: chance.choice(HEADERS[name])
        for name in chance.sample(sorted(HEADERS), chance.choice((0, 0, 1, 2)))
    }
    headers = {name: text.encode("ascii", "replace").decode() for name, text in headers.items()}
    data: Any = None
    content_type = ""
    if method not in {"get", "head", "options"}:
        body = dict(pairs() + pairs())
        if route.startswith("api-") or chance.random() < 0.1:
            data = {**body, **chance.choice(({}, {"text": "yes"}, {"plan": True}, {"name": "n"}))}
            content_type = "application/json"
        elif chance.random() < 0.1:
            data, content_type = (
                chance.randbytes(30),
                chance.choice(("text/plain", "multipart/form-data; boundary=x")),
            )
        else:
            data = urlencode(body, errors="replace")
            content_type = "application/x-www-form-urlencoded"
    return Attack(route, address, method, data, content_type, headers)


def sent(stage: Stage, sender: Sender, attack: Attack, before: dict[str, str]) -> Reply:
    """Send a request and undo what it did. ``before`` are the other team's rows."""
    from django.db import connection, transaction

    from checkpoint_site.middleware.throttle import throttle

    statements: list[str] = []

    def noted(execute: Any, sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return execute(sql, *rest)

    client, cookies = sender.client, sender.client.cookies.output()
    throttle.storage.reset()
    headers = dict(attack.headers)
    if sender.is_program:
        headers.pop("Authorization", None)
    options: dict[str, Any] = {"headers": headers}
    if attack.content_type:
        options |= {"data": attack.data, "content_type": attack.content_type}
    with transaction.atomic():
        with connection.execute_wrapper(noted):
            response = getattr(client, attack.method)(attack.address, **options)
            body = b"".join(response) if response.streaming else response.content
        written = frozenset(found for sql in statements if (found := written_table(sql)))
        changed = difference(before, rows_of(stage)) if written - OF_REQUESTS else ""
        transaction.set_rollback(True)
    client.cookies.clear()
    client.cookies.load(cookies.replace("Set-Cookie: ", ""))
    return Reply(response.status_code, text_of(response, body), len(statements), written, changed)


def text_of(response: Any, body: bytes) -> str:
    """Return everything that a response says, without what is random."""
    headers = "\n".join(f"{name}: {value}" for name, value in sorted(response.items()) if name not in OF_TIME)
    # Without the time and the signature.
    messages = response.cookies["messages"].value.rsplit(":", 2)[0] if "messages" in response.cookies else ""
    return CHANGING.sub("", f"{headers}\n{messages}\n{body.decode(errors='replace')}")


def written_table(sql: str) -> str:
    found = re.match(r"\s*(?:INSERT (?:OR \w+ )?INTO|UPDATE|DELETE FROM) \"?(\w+)", sql, re.I)
    return found[1] if found else ""


def rows_of(stage: Stage) -> dict[str, str]:
    """Return each row of the other team, and each that is about one, as text."""
    found = {}
    for model in models_of_rows():
        table, name = model._meta.db_table, model._meta.pk.attname
        related = {
            one.attname: one.related_model._meta.db_table for one in model._meta.fields if one.is_relation
        }
        for row in model._base_manager.values() if table not in OF_REQUESTS else ():
            keys = {f"{table} {row[name]}", *(f"{to} {row[one]}" for one, to in related.items())}
            if keys & stage.keys or stage.other.uid in row.values():
                found[f"{table} {row[name]}"] = repr(row)
    return found


def difference(before: dict[str, str], after: dict[str, str]) -> str:
    """Return the keys of the rows that are not the same; empty if all are."""
    return ", ".join(key for key in {**before, **after} if before.get(key) != after.get(key))


@contextmanager
def without_other_team(stage: Stage) -> Iterator[None]:
    """Delete the rows of the other team within the block. No constraint is checked before the end."""
    from django.db import transaction

    with transaction.atomic():
        for model in models_of_rows():
            table = model._meta.db_table
            gone = [key.partition(" ")[2] for key in stage.keys if key.startswith(f"{table} ")]
            if gone and table not in OF_REQUESTS:
                model._base_manager.filter(pk__in=gone)._raw_delete("default")
        yield
        transaction.set_rollback(True)


# The checks.


def attacked(stage: Stage, sender: Sender, attacks: Sequence[Attack], counts: Counter[str]) -> list[str]:
    """Send each request with and without the other team's rows. Return what was wrong."""
    from tests.views.access.test_roles import HIDDEN
    from tests.views.access.test_urls import LOGIN
    from tests.views.forking import SECRET

    before, wrong = rows_of(stage), list[str]()

    def compared(some: Sequence[Attack]) -> list[tuple[Attack, Reply, Reply]]:
        replies = [sent(stage, sender, attack, before) for attack in some]
        with without_other_team(stage):
            unknown = [sent(stage, sender, attack, {}) for attack in some]
        return list(zip(some, replies, unknown, strict=True))

    pairs = compared(attacks)
    # A minute may have ended, or something was cached by the first of both.
    again = {
        attack: (reply, other) for attack, reply, other in compared([a for a, *two in pairs if differ(*two)])
    }
    pairs = [(attack, *again.get(attack, two)) for attack, *two in pairs]
    for attack, reply, other in pairs:
        named = f"{sender.name}, {attack}"
        counts["requests"] += 2
        counts[f"{reply.status // 100}xx"] += 1
        if reply.status >= 500:
            wrong.append(f"{named}: status {reply.status}")
        if SECRET in reply.text:
            wrong.append(f"{named}: shows a secret")
        if reply.changed:
            wrong.append(f"{named}: changed {reply.changed}")
        if reply.status == other.status and HIDDEN in reply.text and HIDDEN not in other.text:
            wrong.append(f"{named}: names the other team")
        # Pages of an account have random secrets, and nothing of a location.
        is_compared = attack.route not in LOGIN or reply.status != other.status
        if is_compared and (reply.status, reply.text) != (other.status, other.text):
            wrong.append(f"{named}: differs, {first_difference(reply, other)}")
        elif is_compared and reply.queries != other.queries:
            wrong.append(f"{named}: {reply.queries} queries instead of {other.queries}")
        if found := beyond_the_right(stage, sender, attack, reply):
            wrong.append(f"{named}: {found}")
    return wrong


def differ(reply: Reply, other: Reply) -> bool:
    return (reply.status, reply.text, reply.queries) != (other.status, other.text, other.queries)


def first_difference(reply: Reply, other: Reply) -> str:
    """Return where two replies begin to differ."""
    if reply.status != other.status:
        return f"status {reply.status} instead of {other.status}"
    at = next((n for n, (a, b) in enumerate(zip(reply.text, other.text, strict=False)) if a != b), 0)
    return f"{reply.text[max(0, at - 60) : at + 60]!r} instead of {other.text[max(0, at - 60) : at + 60]!r}"


def beyond_the_right(stage: Stage, sender: Sender, attack: Attack, reply: Reply) -> str:
    """Return what a request did that the sender's level does not allow; empty if nothing."""
    from tests.views.access.test_urls import ALL

    rule = getattr(ALL[attack.route].callback, "rule", None)
    if rule is None:
        return ""
    own, other = stage.own_addresses[attack.route], stage.other_addresses[attack.route]
    has_no_object = own == other
    level = sender.highest if has_no_object else sender.level if attack.address.startswith(own) else 0
    if not rule.everywhere and (level >= rule.right.level or (has_no_object and rule.right == "view")):
        return ""
    is_refused = reply.status in REFUSED or "HX-Redirect: /login/" in reply.text
    if not is_refused and attack.method != "options":
        return f"status {reply.status} without the right"
    if stray := reply.written - OF_REQUESTS:
        return f"was refused, and wrote to {', '.join(sorted(stray))}"
    return ""


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    import logging

    from django.core.signals import got_request_exception

    logging.disable()
    with temporary_data_folder() as folder:
        from viewer.host.permitted import permit
        from viewer.host.worker import claim_unregistered

        claim_unregistered()
        permit(str(folder))
        got_request_exception.connect(print_error)
        return attack_all(folder, ROUNDS)


def print_error(**_more: Any) -> None:
    traceback.print_exc(limit=-6, file=sys.stdout)


def attack_all(folder: Path, rounds: int) -> int:
    """Attack with each sender. Print a row for each. Return 1 if a check failed."""
    from django.conf import settings

    from tests.real_stores import hashes_below

    settings.AUDIT = True
    stage = staged(folder)
    everyone = senders(stage, folder)
    files = hashes_below(Path(stage.other.path))
    print_heading("sender", "addresses", "requests", *KINDS, "wrong")
    all_wrong = list[str]()
    for number, sender in enumerate(everyone):
        counts, wrong = Counter[str](), list[str]()
        for one in range(rounds):
            chance = random.Random(1000 * number + one)
            attacks = [
                made(chance, stage, route, of_other=of_other)
                for route in sorted(stage.own_addresses)
                for of_other in (False, True)
            ]
            wrong += attacked(stage, sender, attacks, counts)
        print_row(
            sender.name,
            len(stage.own_addresses),
            counts["requests"],
            *(counts[kind] for kind in KINDS),
            len(wrong),
        )
        all_wrong += wrong
    if hashes_below(Path(stage.other.path)) != files:
        all_wrong.append("a file of the other team has changed")
    print(*all_wrong[:100], sep="\n")
    return int(bool(all_wrong))


if __name__ == "__main__":
    sys.exit(main())

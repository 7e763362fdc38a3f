"""Accepts invitations many times at once, again, forged, and after the right of their maker has ended.

Passes if each gives what it says to one person at most, if nobody gets an account or a role otherwise, and
if it is never both used and revoked.
"""

import logging
import random
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quality.fuzz.api_tokens import altered
from quality.fuzz.quotas import at_once
from quality.fuzz.routes_by_roles import browser
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import made_location, temporary_data_folder

if TYPE_CHECKING:
    from django.test import Client

    from viewer.models import Invitation, Location

RACES, THREADS, FORGED, ENDINGS = 20, 20, 300, 5
PASSWORD = "green tea, twice"
ENDS = (
    *("expired", "revoked", "its maker lost the role", "its maker is viewer now", "its maker left the team"),
    *(
        "its maker is deactivated",
        "its maker was deleted",
        "its location was removed",
        "its team was deleted",
    ),
)


def accepted(client: "Client", token: str) -> int:
    """Send the form of an invitation with a new name. Return the status."""
    from checkpoint_site.middleware.throttle import throttle

    throttle.storage.reset()
    form = {"username": f"guest {uuid4().hex}", "password1": PASSWORD, "password2": PASSWORD}
    # Names may have no blanks.
    form["username"] = form["username"].replace(" ", "-")
    return int(client.post(f"/invitation/{token}/", form).status_code)


def given() -> tuple[int, int, int]:
    """Return how many people, roles and memberships there are."""
    from django.contrib.auth.models import User

    from viewer.models import Role, Team

    return User.objects.count(), Role.objects.count(), Team.members.through.objects.count()


def race(chance: random.Random, counts: Counter[str], location: "Location", threads: int) -> list[str]:
    """Accept one invitation at once: as new people, and as some who have an account. Sometimes revoke it."""
    from django.contrib.auth.models import User

    from viewer.models import Level, Team
    from viewer.records.accounts import invite, revoke_invitation

    team = Team.objects.create(name=f"team {uuid4().hex[:8]}")
    invitation, token = invite(None, level=Level.OPERATOR, location=location, team=team)
    clients = [browser() for _ in range(threads)]
    known = [User.objects.create_user(f"known {uuid4().hex}") for _ in range(threads // 4)]
    for client, user in zip(clients, known, strict=False):
        client.force_login(user)
    revokes, before = chance.random() < 0.4, given()
    at = chance.randrange(threads)

    def act(number: int) -> int | bool:
        return revoke_invitation(invitation) if revokes and number == at else accepted(clients[number], token)

    answers = at_once(act, threads)
    invitation.refresh_from_db()
    was_revoked, joined = revokes and answers[at] is True, sum(status == 302 for status in answers)
    counts["acceptances"] += threads - revokes
    counts["joined"] += joined
    counts["revoked first"] += was_revoked
    wrong = [] if joined == (0 if was_revoked else 1) else [f"{joined} joined, revoked: {was_revoked}"]
    if bool(invitation.used_at) == was_revoked or bool(invitation.revoked_at) != was_revoked:
        wrong.append("is used and revoked")
    people, roles, members = (after - former for after, former in zip(given(), before, strict=True))
    if roles != joined or members != joined or people > joined:
        wrong.append(f"{people} people, {roles} roles and {members} memberships for {joined}")
    if again := [status for client in clients if (status := accepted(client, token)) != 403]:
        wrong.append(f"accepted again: {again}")
    counts["again"] += threads
    return wrong


def forged(chance: random.Random, counts: Counter[str], location: "Location", tries: int) -> list[str]:
    """Accept invitations that nobody has made. Return what was wrong."""
    from urllib.parse import quote

    from viewer.models import Level
    from viewer.records.accounts import invite

    invitation, token = invite(None, level=Level.ADMIN, location=location)
    before, wrong = given(), list[str]()
    guesses = {altered(chance, token) for _ in range(tries)} - {token}
    for guess in (invitation.token_hash, str(invitation.pk), *sorted(guesses)):
        counts["forged"] += 1
        status = accepted(browser(), quote(guess.replace("/", ""), safe="") or "x")
        if status not in (403, 404) or given() != before:
            wrong.append(f"forged: status {status} for {guess!r}")
    invitation.refresh_from_db()
    return [*wrong, "a forged one was used"] if invitation.used_at else wrong


def ended(counts: Counter[str], location: "Location", change: str) -> list[str]:
    """Accept an invitation after this change. Return what was wrong."""
    from viewer.records.accounts import invitation_with

    invitation, token, client = made_by_an_admin(location, change)
    page = client.get(f"/invitation/{token}/").content.decode()
    wrong = [] if location.path in page or "team" in page else [f"{change}: did not work before"]
    end(invitation, change)
    before = given()
    statuses = {accepted(client, token), client.get(f"/invitation/{token}/").status_code}
    counts[change] += 2
    if statuses != {403} or given() != before:
        wrong.append(f"{change}: {statuses}")
    found = invitation_with(token)
    return [*wrong, f"{change}: was used"] if found and found.used_at else wrong


def made_by_an_admin(location: "Location", change: str) -> "tuple[Invitation, str, Client]":
    """Return an invitation that ends with this change, its token, and the browser of somebody invited."""
    from django.contrib.auth.models import User

    from viewer.models import Level, Location, Role, Team
    from viewer.records.accounts import invite

    maker, team = User.objects.create_user(f"maker {uuid4().hex}"), None
    at: Location | None = location
    if change == "its maker left the team":
        of_maker = Team.objects.create(name=f"makers {uuid4().hex}")
        of_maker.members.add(maker)
        Role.objects.create(team=of_maker, location=location, level=Level.ADMIN)
    elif change == "its team was deleted":
        team, at = Team.objects.create(name=f"team {uuid4().hex}"), None
        Role.objects.create(user=maker, level=Level.ADMIN)
    else:
        if change == "its location was removed":
            at = Location.objects.create(path=f"{location.path}/{uuid4().hex}", store_kind="json")
        Role.objects.create(user=maker, location=at, level=Level.ADMIN)
    return (*invite(maker, level=Level.VIEWER, location=at, team=team), browser())


def end(invitation: "Invitation", change: str) -> None:
    """Make an invitation stop working in this way."""
    from django.utils import timezone

    from viewer.models import Level
    from viewer.records.accounts import revoke_invitation

    maker: Any = invitation.made_by
    if change == "expired":
        type(invitation).objects.filter(pk=invitation.pk).update(expires_at=timezone.now())
    elif change == "revoked":
        revoke_invitation(invitation)
    elif change == "its maker lost the role":
        maker.roles.all().delete()
    elif change == "its maker is viewer now":
        maker.roles.update(level=Level.VIEWER)
    elif change == "its maker left the team":
        maker.teams.clear()
    elif change == "its maker is deactivated":
        type(maker).objects.filter(pk=maker.pk).update(is_active=False)
    else:
        ending: Any = {
            "its maker was deleted": maker,
            "its location was removed": invitation.location,
            "its team was deleted": invitation.team,
        }[change]
        ending.delete()


def attack(folder: Path) -> int:
    """Print a table of each attack. Return 1 if a check failed."""
    from django.conf import settings

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    location, chance, counts = made_location(folder), random.Random(11), Counter[str]()
    wrong = [fault for _ in range(RACES) for fault in race(chance, counts, location, THREADS)]
    kinds = ("acceptances", "joined", "revoked first", "again")
    print_heading("invitations accepted at once", *kinds, "wrong")
    print_row(RACES, *(counts[kind] for kind in kinds), len(wrong))
    others = forged(chance, counts, location, FORGED)
    others += [fault for change in ENDS for _ in range(ENDINGS) for fault in ended(counts, location, change)]
    print()
    print_heading("invitations that do not work", "requests", "wrong")
    for kind in ("forged", *ENDS):
        print_row(kind, counts[kind], sum(fault.startswith(kind) for fault in others))
    print(*(wrong + others)[:40], sep="\n")
    return int(bool(wrong or others))


def main() -> int:
    logging.disable()
    with temporary_data_folder() as folder:
        from viewer.host.worker import claim_unregistered

        claim_unregistered()
        return attack(folder)


if __name__ == "__main__":
    sys.exit(main())

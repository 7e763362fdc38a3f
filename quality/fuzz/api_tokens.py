"""Sends API tokens that must not work, tokens with less than their person, and idempotency keys at once.

Passes if a token that is forged, altered, expired, revoked, of a deactivated person or in another place opens
nothing and is not recorded as used, if one that works has exactly the least of its own role and of its
person's at every location, and if a key starts one run at most, however many requests send it.
"""

import json
import logging
import random
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quality.fuzz.quotas import at_once
from quality.fuzz.routes_by_roles import browser, program
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

    from viewer.models import ApiToken, Checkpoint, Location

ALTERED, SCOPES, RACES, THREADS = 300, 300, 12, 50
LIST = "/api/locations"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


# Tokens that do not work.


ENDS = ("expired", "revoked", "of a deactivated person", "of a deleted person", "without a role")


def altered(chance: random.Random, text: str) -> str:
    """Return a token that somebody could make of a real one."""
    at = chance.randrange(len(text))
    other = chance.choice(LETTERS.replace(text[at], ""))
    return chance.choice(
        (
            *(text[:at] + other + text[at + 1 :], text[:at], text + other, text[1:], text.swapcase()),
            *(
                text[:-1],
                text.replace("fkl_", "", 1),
                f"{text} {text}",
                f'"{text}"',
                f"{text}\x00",
                f"{text},",
            ),
            *(
                b64encode(text.encode()).decode(),
                f"%66{text[1:]}",
                text[::-1],
                f"fkl_{uuid4().hex}",
                "é" * 47,
            ),
            f"fkl_{''.join(chance.choices(LETTERS, k=43))}",
        )
    )


def out_of_place(text: str) -> "Iterator[tuple[str, Client, str]]":
    """Yield clients that send a token where none is read, with an address."""
    yield "in the address", browser(), f"{LIST}?token={text}&access_token={text}&sesame={text}"
    basic = b64encode(f"{text}:{text}".encode()).decode()
    for header in (f"Basic {basic}", f"Token {text}", text, f"Bearer{text}", f"Bearer\t{text}", "Bearer"):
        yield "in another scheme", browser(Authorization=header), LIST
    for name in ("X-Api-Key", "X-Authorization", "Proxy-Authorization", "Cookie", "X-CSRFToken"):
        yield "in another header", browser(**{name: f"Bearer {text}"}), LIST


def attack_tokens(chance: random.Random, counts: Counter[str], location: "Location", tries: int) -> list[str]:
    """Send tokens that must not work. Return what was wrong."""
    from viewer.models.accounts import hash_of

    _user, token, text = fresh(chance)
    sent = [
        ("altered", program(guess), LIST) for _ in range(tries) if (guess := altered(chance, text)) != text
    ]
    sent += out_of_place(text)
    hashes = (token.token_hash, f"fkl_{token.token_hash[:43]}", f"fkl_{hash_of(token.token_hash)[:43]}")
    sent += [("hash of one", program(one), LIST) for one in hashes]
    sent += [(change, ended(chance, change), LIST) for change in ENDS]
    wrong = [] if answer_of(program(text), LIST).status_code == 200 else ["a token that works is refused"]
    for kind, client, address in sent:
        counts[kind] += 1
        wrong += [f"{kind}: {fault}" for fault in faults_of(client, address, location)]
    return wrong


def fresh(chance: random.Random) -> "tuple[User, ApiToken, str]":
    """Return a new person with a role and a token."""
    from django.contrib.auth.models import User

    from viewer.models import Level, Role
    from viewer.records.accounts import make_token

    user = User.objects.create_user(f"person {uuid4().hex}")
    Role.objects.create(user=user, level=chance.choice(Level.values))
    return (user, *make_token(user, "ci", Level.VIEWER))


def ended(chance: random.Random, change: str) -> "Client":
    """Return a client with a token that worked until this change."""
    from django.utils import timezone

    user, token, text = fresh(chance)
    client = program(text)
    if change in ("expired", "revoked"):
        # A session of the same person changes nothing.
        client.force_login(user)
    if change == "expired":
        type(token).objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(microseconds=1))
    elif change == "revoked":
        token.revoke()
    elif change == "of a deactivated person":
        type(user).objects.filter(pk=user.pk).update(is_active=False)
    elif change == "of a deleted person":
        user.delete()
    else:
        user.roles.all().delete()
    return client


def faults_of(client: "Client", address: str, location: "Location") -> list[str]:
    """Return what is wrong with the answer to a token that does not work."""
    from viewer.models import ApiToken

    def uses() -> list[Any]:
        return list(ApiToken.objects.order_by("pk").values_list("last_used_at", flat=True))

    before, response = uses(), answer_of(client, address)
    faults = [] if response.status_code == 401 else [f"status {response.status_code}"]
    if location.path in response.content.decode():
        faults.append("names a location")
    if uses() != before:
        faults.append("is recorded as used")
    return faults


def answer_of(client: "Client", address: str) -> Any:
    """Return a response, whatever failed before."""
    from checkpoint_site.middleware.throttle import throttle

    throttle.storage.reset()
    return client.get(address)


# What a token that works may do.


def attack_scope(chance: random.Random, counts: Counter[str], checkpoints: "list[Checkpoint]") -> list[str]:
    """Give a token and its person random roles, which change later. Return what it could do, and must not."""
    from django.contrib.auth.models import User

    from viewer.models import Level, Role
    from viewer.records.accounts import TokenRefused, make_token

    locations = [checkpoint.location for checkpoint in checkpoints]
    user = User.objects.create_user(f"person {uuid4().hex}")

    def give_roles() -> dict[int, int]:
        Role.objects.filter(user=user).delete()
        roles = {place: chance.choice((0, 0, *Level.values)) for place in (None, *locations)}
        for place, level in roles.items():
            if level:
                Role.objects.create(user=user, location=place, level=level)
        return {place.pk: max(roles[None], roles[place]) for place in locations}

    levels, wrong = give_roles(), list[str]()
    level = Level(chance.choice(Level.values))
    places = chance.choice((None, chance.sample(locations, chance.randrange(1, len(locations)))))
    named = [levels[place.pk] for place in places] if places else [max(levels.values())]
    try:
        _token, text = make_token(user, "ci", level, places)
    except TokenRefused:
        counts["refused to make"] += 1
        return [] if min(named) < level else ["a person may not make a token with their own role"]
    if min(named) < level:
        wrong.append(f"a token of level {level} for {named}")
    if chance.random() < 0.7:
        levels = give_roles()
        counts["roles changed"] += 1
    client = program(text)
    within = {place.pk for place in places or locations}
    for checkpoint in checkpoints:
        key = checkpoint.location_id
        has = min(level, levels[key]) if key in within else 0
        seen = answer_of(client, f"/api/locations/{checkpoint.location.uid}").status_code
        noted = client.post(
            f"/api/checkpoints/{checkpoint.pk}/note", {"note": "n"}, content_type="application/json"
        ).status_code
        counts["seen" if has else "not seen"] += 1
        if (seen == 200) != (has >= Level.VIEWER) or (noted == 200) != (has >= Level.OPERATOR):
            wrong.append(f"level {has} at {key}: {seen} and {noted}")
    return wrong


# Idempotency keys.


def attack_key(
    chance: random.Random, counts: Counter[str], checkpoint: "Checkpoint", threads: int
) -> list[str]:
    """Send a key in many requests at once, some with another body or to another address."""
    from django.contrib.auth.models import User

    from viewer.models import Job, Level, Role
    from viewer.records.accounts import make_token

    user = User.objects.create_user(f"person {uuid4().hex}")
    Role.objects.create(user=user, level=Level.OPERATOR)
    texts = [make_token(user, "ci", Level.OPERATOR)[1] for _ in range(2)]
    key, branch = uuid4().hex, f"branch {uuid4().hex[:8]}"
    # Most rounds have requests with one body only.
    bodies = [{"branch": branch}]
    if chance.random() < 0.3:
        bodies += [{"branch": branch, "name": "x"}, {"branch": f"{branch}x"}]

    def send(number: int) -> tuple[int, int, Any]:
        which = number % len(bodies)
        response = program(texts[number % 2]).post(
            f"/api/checkpoints/{checkpoint.pk}/fork",
            json.dumps(bodies[which]),
            content_type="application/json",
            headers={"Idempotency-Key": key},
        )
        return which, response.status_code, response.json().get("job")

    answers = at_once(send, threads)
    jobs = Job.objects.filter(requested_by=user)
    statuses = Counter(status for _which, status, _job in answers)
    counts["requests"] += len(answers)
    counts["started"] += jobs.count()
    counts["same job"] += statuses[200]
    counts["other body"] += statuses[422]
    wrong = [f"{jobs.count()} jobs of one key"] if jobs.count() > 1 else []
    bodies_answered = {which for which, status, _job in answers if status in (200, 201)}
    named = {job for _which, status, job in answers if status in (200, 201)}
    if len(bodies_answered) > 1 or named - {str(job.pk) for job in jobs}:
        wrong.append(f"bodies {bodies_answered} got the jobs {named}")
    if stray := set(statuses) - {200, 201, 422}:
        wrong.append(f"statuses {stray}")
    if not jobs or not statuses[201]:
        wrong.append("nothing was started")
    Job.objects.filter(requested_by=user).delete()
    return wrong


def prepared(folder: Path) -> "list[Checkpoint]":
    """Create three locations with a checkpoint each. Needs Django to be set up."""
    from tests.views.forking import CREW, create_location, stored

    return [stored(create_location((folder / name).resolve()), CREW) for name in ("one", "two", "three")]


def attack_all(folder: Path) -> int:
    """Print a table of each attack. Return 1 if a check failed."""
    checkpoints, chance, all_wrong = prepared(folder), random.Random(23), list[str]()
    counts = Counter[str]()
    wrong = attack_tokens(chance, counts, checkpoints[0].location, ALTERED)
    print_heading("tokens that do not work", "requests", "wrong")
    for kind, count in sorted(counts.items()):
        print_row(kind, count, sum(fault.startswith(kind) for fault in wrong))
    all_wrong += wrong
    counts.clear()
    wrong = [fault for _ in range(SCOPES) for fault in attack_scope(chance, counts, checkpoints)]
    kinds = ("refused to make", "roles changed", "seen", "not seen")
    print()
    print_heading("roles of tokens", *kinds, "wrong")
    print_row(SCOPES, *(counts[kind] for kind in kinds), len(wrong))
    all_wrong += wrong
    counts.clear()
    wrong = [fault for _ in range(RACES) for fault in attack_key(chance, counts, checkpoints[0], THREADS)]
    kinds = ("requests", "started", "same job", "other body")
    print()
    print_heading("keys sent at once", *kinds, "wrong")
    print_row(RACES, *(counts[kind] for kind in kinds), len(wrong))
    all_wrong += wrong
    print(*all_wrong[:40], sep="\n")
    return int(bool(all_wrong))


def main() -> int:
    logging.disable()
    with temporary_data_folder() as folder:
        from viewer.host.permitted import permit
        from viewer.host.worker import claim_unregistered

        claim_unregistered()
        permit(str(folder))
        return attack_all(folder)


if __name__ == "__main__":
    sys.exit(main())

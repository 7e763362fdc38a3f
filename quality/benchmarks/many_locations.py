"""Measures pages with 1,000,000 checkpoints of 1,000 locations in PostgreSQL.

SQL copies the rows of one generated location; the texts of each copy contain a word that no other copy has.
Only the first location has stored copies of its checkpoints, which none of these pages reads. ``LOCATIONS``
and ``LENGTH``, the checkpoints of a run, measure it at another size.
"""

import os
import random
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from quality.benchmarks.timing import timed_requests
from quality.cluster.database import used_server
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder

if TYPE_CHECKING:
    from django.db.models import Field, Model
    from django.test import Client

LOCATIONS = int(os.environ.get("LOCATIONS", "1000"))
RUNS, REQUESTS, GOAL_MILLISECONDS = 5, 40, 200
# Of a text that all locations have, of one that a copy has, and of the beginning of many words.
# More than the keys of each table before it is copied.
KEYS = 100_000
# Of the texts, and of the index of their words.
SIZES = """
SELECT sum(octet_length(text))::bigint, (
    SELECT sum(pg_relation_size(indexrelid))::bigint FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    JOIN pg_am ON pg_am.oid = relam WHERE amname = 'gin'
) FROM viewer_searchentry
"""
# Those that no constraint needs.
INDEXES = """
SELECT quote_ident(relname), pg_get_indexdef(pg_class.oid)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid::regclass::text = ANY(%s) AND NOT indisunique
"""
SEARCHES = {"a common word": "everywhere", "a rare word": "copy{number}", "the beginning of words": "w19"}


def main() -> None:
    """Measure with a temporary server and data folder, and print the tables."""
    with used_server(), temporary_data_folder():
        from quality.benchmarks.search import store_run
        from viewer.host.locations.search_index import index_some
        from viewer.host.worker import claim_unregistered
        from viewer.models import Location

        claim_unregistered()
        location = Location.objects.create(path="/generated/0", store_kind="json")
        for number in range(RUNS):
            store_run(location, number)
        while index_some(1.0):
            pass
        report(logged_in(), make_copies())


def make_copies() -> float:
    """Copy the location with its runs, checkpoints and search entries. Return the seconds that it took."""
    from django.db import connection

    from viewer.models import Checkpoint, Location, Run, SearchedLocation, SearchEntry
    from viewer.records.search import marks_of

    began, models = time.perf_counter(), (Location, Run, Checkpoint, SearchEntry)
    with connection.cursor() as cursor:
        # Neither triggers nor foreign keys are checked for each row, and indexes are made at once.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute(INDEXES, [[model._meta.db_table for model in models]])
        indexes = cursor.fetchall()
        for name, _definition in indexes:
            cursor.execute(f"DROP INDEX {name}")
        for model in models:
            # A generated column is computed by the database.
            fields = [field for field in model._meta.concrete_fields if not field.generated]
            names = ", ".join(f'"{field.column}"' for field in fields)
            values = ", ".join(copied(field, models) for field in fields)
            cursor.execute(
                f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values}"
                f" FROM {model._meta.db_table}, generate_series(1, %s) AS number ORDER BY number, id",
                [LOCATIONS - 1],
            )
        for _name, definition in indexes:
            cursor.execute(definition)
        cursor.execute("RESET session_replication_role")
        cursor.execute("VACUUM ANALYZE")
    marks = marks_of(Location.objects.exclude(searched__isnull=False))
    SearchedLocation.objects.bulk_create(SearchedLocation(pk=pk, mark=mark) for pk, mark in marks.items())
    return time.perf_counter() - began


def copied(field: "Field[Any, Any]", models: tuple[type["Model"], ...]) -> str:
    """The value of a column in the copy with a number."""
    column = f'{field.model._meta.db_table}."{field.column}"'
    if field.primary_key or (field.is_relation and field.related_model in models):
        return f"{column} + number * {KEYS}"
    if field.name == "uid":
        return "gen_random_uuid()"
    return f"{column} || ' copy' || number" if field.name in ("path", "text") else column


def report(client: "Client", seconds: float) -> None:
    """Print how long pages take, and how large the index of the search is."""
    from django.db import connection

    from viewer.models import Checkpoint, Location, Run, SearchEntry

    counts = [f"{model._base_manager.count():,}" for model in (Location, Checkpoint, SearchEntry)]
    with connection.cursor() as cursor:
        cursor.execute(SIZES)
        text, index = cursor.fetchone()
    print_heading("locations", "checkpoints", "texts", "made in", "text", "index", "goal for the index")
    print_row(*counts, f"{seconds:.0f} s", f"{text >> 20:,} MB", f"{index >> 20:,} MB", "half of the text")
    print()
    chance, runs = random.Random(1), list(Run.objects.values_list("pk", flat=True))
    chosen = Run.objects.filter(pk__in=chance.sample(runs, REQUESTS))
    pages = {"home": ["/"] * REQUESTS, "locations": ["/locations/"] * REQUESTS}
    pages |= {"a run": [one.get_absolute_url() for one in chosen]}
    for name, word in SEARCHES.items():
        words = [word.format(number=chance.randrange(1, LOCATIONS)) for _request in range(REQUESTS)]
        pages[f"search: {name}"] = [f"/search/?q={one}" for one in words]
    print_heading("page", "median", "p95", "goal for p95")
    for name, addresses in pages.items():
        timed_requests(client, addresses[0], 1)
        taken = [timed_requests(client, one, 1)[0].passed * 1000 for one in addresses]
        p95 = quantiles(taken, n=20)[-1]
        print_row(name, f"{median(taken):.0f} ms", f"{p95:.0f} ms", f"{GOAL_MILLISECONDS} ms")


if __name__ == "__main__":
    main()

"""Rows in PostgreSQL: what differs from SQLite's is the same behind the same functions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgresql.conftest import ROOT, Installation
from tests.real_stores import copy_of

NewInstallation = Callable[..., Installation]
TEXTS = "SELECT count(*) FROM information_schema.columns WHERE table_name LIKE 'viewer\\_%' AND data_type IN"


def test_texts_are_ordered_by_their_bytes(installation: Installation) -> None:
    with installation.server.connected(installation.name) as connection:
        everything = f"{TEXTS} ('text', 'character varying')"
        others = connection.execute(f"{everything} AND collation_name IS DISTINCT FROM 'C'").fetchone()
        assert others == (0,) and connection.execute(everything).fetchone() != (0,)


def test_a_location_is_imported_and_listed(installation: Installation, tmp_path: Path) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    first = installation.manage("import_checkpoints", str(store))
    assert "6 checkpoints, 6 new" in first.stdout, first.stderr
    assert "0 new, 0 changed" in installation.manage("import_checkpoints", str(store)).stdout
    assert not (installation.data_folder / "forkline.sqlite3").exists()
    listed = json.loads(installation.manage("checkpoints", "list", str(store), "--json").stdout)
    assert len(listed["runs"]) == 1


def test_characters_that_the_server_cannot_hold_are_replaced(installation: Installation) -> None:
    shown = installation.python(
        "from viewer.models import Project\n"
        "texts = ['\\0', '\\ud800', r'\\u0000']\n"
        "p = Project.objects.create(folder='/a\\0b', interpreter='python', entry_points=texts)\n"
        "p.refresh_from_db(); print(ascii(p.folder), ascii(p.entry_points))\n"
        "print(Project.objects.filter(folder='/a\\0b').count())"
    )
    assert shown == "'/a\\ufffdb' ['\\ufffd', '?', '\\\\u0000']\n1\n"


@pytest.mark.parametrize("is_server", [False, True], ids=["sqlite", "postgresql"])
def test_documents_keep_the_order_of_their_names(new_installation: NewInstallation, is_server: bool) -> None:
    """As a person typed it: inputs, state and edits are shown in this order."""
    installation = new_installation()
    server = {} if is_server else {"DATABASE_URL": ""}
    assert installation.manage("checkpoints", "answer", **server).returncode == 0
    shown = installation.python(
        "from viewer.models import Job, Location\n"
        "place = Location.objects.create(path='/x')\n"
        "typed = {'topic': 1, 'a': {'longer': 1e22, 'b': [1.0]}, 'B': None}\n"
        "Job.objects.create(location=place, kind='fork', request={'state': typed, 'name': 'it'}, limits={})\n"
        "job = Job.objects.get(); print(job.request)\n"
        "same = Job.objects.filter(limits={}, stopped_before=[], request__state=typed)\n"
        "print(same.count(), Job.objects.exclude(limits={}).count())\n"
        "print(Job.objects.filter(request__name='it').count())\n"
        "print(*Job.objects.values_list('request__state__a', flat=True))",
        **server,
    )
    inner = "{'longer': 1e+22, 'b': [1.0]}"
    typed = f"{{'topic': 1, 'a': {inner}, 'B': None}}"
    assert shown.splitlines() == [f"{{'state': {typed}, 'name': 'it'}}", "1 0", "1", inner]


def test_any_command_creates_the_tables_of_a_new_database(
    new_installation: NewInstallation, tmp_path: Path
) -> None:
    store, installation = copy_of("1.15.30/json", tmp_path), new_installation()
    listed = installation.manage("checkpoints", "list", str(store), "--json")
    assert listed.returncode == 0, listed.stderr
    assert len(json.loads(listed.stdout)["runs"]) == 1


def test_a_user_who_may_create_no_tables_is_told_what_to_do(new_installation: NewInstallation) -> None:
    installation = new_installation()
    with installation.server.connected(installation.name) as connection:
        connection.execute("CREATE ROLE poor LOGIN; REVOKE CREATE ON SCHEMA public FROM public")
        # Without a password, the server refuses the role, so the owner acts as it.
        connection.execute(f"ALTER ROLE lg IN DATABASE {installation.name} SET role = poor")
    ended = installation.manage("checkpoints", "answer")
    assert ended.returncode == 1 and "Make it the owner of the database" in ended.stderr


def test_what_has_no_value_comes_first(installation: Installation) -> None:
    shown = installation.python(
        "from django.utils import timezone\n"
        "from viewer.models import Location, Run\n"
        "place = Location.objects.create(path='/x')\n"
        "for name, at in (('a', timezone.now()), ('b', None)):\n"
        "    Run.objects.create(location=place, key=name, name=name, last_at=at)\n"
        "print(*Run.objects.order_by('last_at').values_list('name', flat=True))\n"
        "print(*Run.objects.order_by('-last_at').values_list('name', flat=True))\n"
    )
    assert shown == "b a\na b\n"


def test_a_process_notifies_once_for_many_commits(installation: Installation) -> None:
    with installation.server.connected(installation.name) as connection:
        connection.execute("LISTEN forkline_rows")
        shown = installation.python(
            "import time; from viewer.models import Project; began = time.monotonic()\n"
            "for number in range(500):\n"
            "    Project.objects.create(folder=str(number), interpreter='python')\n"
            "print(time.monotonic() - began)"
        )
        received = list(connection.notifies(timeout=0.5))
    # One for the test at the beginning, one for each twentieth of a second, and the last one.
    assert 2 <= len(received) <= 3 + float(shown) * 20
    assert {one.payload for one in received} == {""}


def test_a_command_wakes_another_process(installation: Installation) -> None:
    with installation.server.connected(installation.name) as connection:
        connection.execute("LISTEN forkline_rows")
        assert installation.manage("login_link", "somebody").returncode == 0
        assert list(connection.notifies(timeout=5, stop_after=2))


def test_a_restart_of_the_server_loses_nothing(installation: Installation) -> None:
    """A process whose connections the server ends goes on with new ones."""
    code = (
        "import time; from contextlib import closing; from django.db import DatabaseError, connection\n"
        "from viewer.data_folder.changes import changes_of_rows\n"
        "from viewer.data_folder.failures import failure_text\n"
        "from viewer.data_folder.locks import row_lock; from viewer.models import Project\n"
        "from viewer import postgresql\n"
        "with closing(changes_of_rows()) as changes, row_lock('one') as first:\n"
        "    while changes.wait(1): pass\n"
        "    Project.objects.create(folder='/one', interpreter='python')\n"
        "    with postgresql.connected() as other:\n"
        "        other.execute('SELECT pg_terminate_backend(pid) FROM pg_stat_activity'\n"
        "                      ' WHERE pid <> pg_backend_pid() AND datname = current_database()')\n"
        "    try: Project.objects.count()\n"
        "    except DatabaseError as error:\n"
        "        print('cannot be reached' in failure_text(error)); connection.close()\n"
        "    with row_lock('one') as again, row_lock('two') as second: print(first, again, second)\n"
        "    while changes.wait(3): pass\n"
        "    Project.objects.create(folder='/two', interpreter='python')\n"
        "    print(changes.wait(5), Project.objects.count())\n"
    )
    assert installation.python(code) == "True\nTrue False True\nTrue 2\n"


def test_the_index_of_the_search_is_half_as_large_as_its_texts(installation: Installation) -> None:
    words = (ROOT / "docs/architecture.md").read_text().split()
    empty = ("query_string", "unit", "agent", "model")
    columns = ", ".join(("location_id", "run_id", "checkpoint_id", "count", "kind", *empty, "digest", "text"))
    with installation.server.connected(installation.name) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY viewer_searchentry ({columns}) FROM STDIN") as copy:
            for number in range(5000):
                at = number * 37 % (len(words) - 300)
                text = " ".join(words[at : at + 300])
                copy.write_row((1, 1, number, 1, "output", *[""] * 4, number.to_bytes(4, "big"), text))
        size = "SELECT pg_relation_size('viewer_searchentry_words')"
        cursor.execute(f"{size}, sum(length(text)) FROM viewer_searchentry")
        index, texts = cursor.fetchone() or (1, 0)
    assert index <= texts / 2, f"{index / texts:.0%}"

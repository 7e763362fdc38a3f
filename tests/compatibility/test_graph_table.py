"""The table of LangGraph's versions: cells of a report, and the table as it is written and read again."""

from pathlib import Path

from quality.compatibility.graphs.environments import packages_of
from quality.compatibility.graphs.table import failed_in, outcomes_in, read_table, table

REPORT = """<testsuites><testsuite>
<testcase name="test_a_fork_is_published[thread]"/>
<testcase name="test_rows[one]"><properties>
<property name="row" value="like LangGraph: one (SQLite)"/><property name="cell" value="refused"/>
</properties></testcase>
<testcase name="test_rows[two]"><properties><property name="row" value="two"/>
<property name="cell" value="refused"/></properties><failure/></testcase>
</testsuite></testsuites>"""


def test_a_test_names_its_row_and_its_cell_and_a_failure_is_one(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    found = outcomes_in(path)
    assert found == {
        "a fork is published (thread)": "pass",
        "like LangGraph: one (SQLite)": "refused",
        "two": "fail",
    }
    assert list(failed_in({"1.0.5": found})) == ["1.0.5  two"]


def test_a_written_table_is_read_again_with_versions_in_their_order() -> None:
    columns = {"1.2.22": {"one": "pass", "two": "refused"}, "0.2.76": {"one": "fail"}}
    written = table(columns)
    assert written.splitlines()[0] == "| What is shown | 0.2.76 | 1.2.22 |"
    assert read_table(f"## Table\n\n{written}") == {
        "0.2.76": {"one": "fail", "two": "not run"},
        "1.2.22": columns["1.2.22"],
    }


def test_a_version_is_installed_with_parts_that_it_works_with() -> None:
    assert "langgraph==1.0.5" in packages_of("1.0.5") and "langgraph-prebuilt==1.0.5" in packages_of("1.0.5")
    assert "langchain" not in packages_of("0.6.11") and "langchain" in packages_of("1.2.22")

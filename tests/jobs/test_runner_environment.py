"""The environment of runners and prewarmed processes."""

from pathlib import Path

import pytest

from viewer.engines import engine_named
from viewer.host.jobs.environment import path_entries, prewarm_environment, runnable, runner_environment
from viewer.host_requests import JobRefused
from viewer.models import Project


def test_runners_and_prewarmed_processes_send_no_telemetry(project: Project) -> None:
    expected = engine_named("crewai").runner.environment
    assert expected["CREWAI_DISABLE_TELEMETRY"] == "true"
    for environment in (runner_environment("job", project), prewarm_environment(project)):
        assert expected.items() <= environment.items()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".env", "A=a\0b"),
        (".env", "'A=B'=x\n"),
        ("langgraph.json", '{"env": {"A": "a\\u0000b"}}'),
        ("langgraph.json", '{"env": {"A": "\\ud800"}}'),
        ("langgraph.json", '{"env": {"A=B": "1"}}'),
    ],
)
def test_variables_that_no_process_can_be_given_refuse_the_start(
    project: Project, tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    project.environment_file = str(tmp_path / name)
    with pytest.raises(JobRefused) as refused:
        runnable(project)
    assert refused.value.message.code == "job.environment_file_not_text"


def test_lines_of_an_interpreters_path_files_that_are_no_paths_are_left_out(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "a.pth").write_text("/opt/code\n", encoding="utf-16")
    (packages / "b.pth").write_text("/opt/code\n")
    found = [entry for _file, entry in path_entries(tmp_path / "bin/python")]
    assert found == [Path("/opt/code")]

"""The environment of runners and prewarmed processes."""

from viewer.engines import engine_named
from viewer.host.jobs.environment import prewarm_environment, runner_environment
from viewer.models import Project


def test_runners_and_prewarmed_processes_send_no_telemetry(project: Project) -> None:
    expected = engine_named("crewai").runner.environment
    assert expected["CREWAI_DISABLE_TELEMETRY"] == "true"
    for environment in (runner_environment("job", project), prewarm_environment(project)):
        assert expected.items() <= environment.items()

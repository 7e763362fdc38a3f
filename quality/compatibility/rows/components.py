"""Components that a checkpoint lacks and the project's code provides."""

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after, recorded_after
from quality.compatibility.sandbox import Sandbox, grown, holds, same
from tests.engine_runs.runs import Ended, marks, request_for, saved_in


def continued(sandbox: Sandbox, entry_point: str, kind: str = "simple") -> Ended:
    """Resume after two tasks with the project's crew, and check the checkpoints and calls."""
    location, start, before = recorded_after(sandbox, kind, 2)
    run = sandbox.continued(
        request_for(start, location, kind="resume", entry_point=f"press_parts:{entry_point}"), "Write Title"
    )
    new = grown(location, before, start, "main")
    triggers = [saved.body.get("trigger") for saved in new]
    same("checkpoints written", triggers, ["task_started", "task_completed"] * 2)
    same("finished tasks at the end", new[-1].done, 4)
    return run


@row("components", "context between tasks that are not adjacent")
def context(sandbox: Sandbox) -> None:
    location = sandbox.recorded("simple")
    start = after(location, 2)
    for entry_point in ("press_parts:plain", ""):
        sandbox.model.reset()
        run = sandbox.completed(
            request_for(start, location, branch=f"b{entry_point[:5]}", entry_point=entry_point)
        )
        # Old engines keep an agent's earlier tasks in the conversation. The last message is current.
        title = sandbox.model.requests[-1]["messages"][-1]["content"]
        holds("the last task is given the first one's output", start.tasks[0]["output"]["raw"] in title)
        third = run.of("task_completed")[0]["output"]
        # Before a task has started, only the project's code knows what it reads. A warning says so.
        is_reported = any("which outputs these tasks read" in line["message"] for line in run.of("warning"))
        holds(
            "it is given that one only, or the difference is reported",
            third not in title if entry_point else is_reported,
        )


@row("components", "a tool class")
def class_tool(sandbox: Sandbox) -> None:
    sandbox.model.calls_tools = 1
    continued(sandbox, "with_class_tool")
    same("called", sandbox.traced(), ["class tool words"])


@row("components", "a tool class, without an entry point")
def class_tool_alone(sandbox: Sandbox) -> None:
    location = sandbox.recorded("class tool")
    sandbox.model.calls_tools = 1
    start, before = after(location, 2), marks(location)
    sandbox.completed(request_for(start, location, kind="resume"))
    same("called", sandbox.traced(), ["class tool words"])
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)


@row("components", "a tool defined with @tool")
def function_tool(sandbox: Sandbox) -> None:
    sandbox.model.calls_tools = 1
    run = continued(sandbox, "with_function_tool")
    same("called", sandbox.traced(), ["function tool words"])
    said = [line["message"] for line in run.of("warning")]
    holds("what the checkpoints cannot hold is reported", any("count_words" in text for text in said))
    location = sandbox.folder / "simple.json/store"
    sandbox.model.reset()
    ours = next(saved for saved in reversed(saved_in(location)) if saved.done == 3)
    sandbox.refused(request_for(ours, location, branch="alone"), "is a function")


@row("components", "guardrail, task and step callbacks")
def callbacks(sandbox: Sandbox) -> None:
    sandbox.model.calls_tools = 1
    continued(sandbox, "with_callbacks")
    traced = sandbox.traced()
    same("guardrail", traced.count("guardrail"), 1)
    same("task's callback", traced.count("task callback"), 1)
    same("crew's callback of each task", traced.count("crew's task callback"), 2)
    holds("the step callback is called", "step callback" in traced)


@row("components", "a callback without a name and a converter class")
def unnamed_functions(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "converted", 2)
    entry_point = "press_parts:with_converter"
    sandbox.continued(request_for(start, location, branch="own", entry_point=entry_point), "Write Title")
    same("called", sandbox.traced(), ["lambda"])
    same("finished tasks at the end", grown(location, before, start, "own")[-1].done, 4)
    check = sandbox.run({**request_for(start, location), "kind": "preflight"})
    parts = check.of("preflight")[0]["report"]["components"]
    lost = {part["what"] for part in parts if part["fate"] == "lost"}
    holds(f"both are reported: {lost}", {"converters", "unseen"} <= lost)


@row("components", "a model class of the project's own")
def own_model(sandbox: Sandbox) -> None:
    continued(sandbox, "with_own_model")
    same("called", sandbox.traced(), ["own model"] * 2)

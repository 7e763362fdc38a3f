"""What a checkpoint loses of a crew, and the project's own code has."""

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after
from quality.compatibility.stage import Stage, grown, holds, same, succeeded, tasks_called
from tests.runners.children import Ended, marks, request_for, saved_in


def gone_on(stage: Stage, entry_point: str, kind: str = "simple") -> Ended:
    """Resume after two tasks with the project's own crew; the checkpoints and calls are as they must be."""
    location = stage.recorded(kind)
    start, before = after(location, 2), marks(location)
    run = stage.run(request_for(start, location, kind="resume", entry_point=f"press_parts:{entry_point}"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    new = grown(location, before, start, "main")
    triggers = [saved.body.get("trigger") for saved in new]
    same("checkpoints written", triggers, ["task_started", "task_completed"] * 2)
    same("finished tasks at the end", new[-1].done, 4)
    return run


@row("parts", "context between tasks that are no neighbours")
def context(stage: Stage) -> None:
    location = stage.recorded("simple")
    start = after(location, 2)
    for entry_point in ("press_parts:plain", ""):
        stage.model.forget()
        run = stage.run(request_for(start, location, branch=f"b{entry_point[:5]}", entry_point=entry_point))
        succeeded(run)
        # Old engines keep an agent's former tasks in its conversation: the last message is this task's.
        title = stage.model.requests[-1]["messages"][-1]["content"]
        holds("the last task is given the first one's output", start.tasks[0]["output"]["raw"] in title)
        third = run.of("task_completed")[0]["output"]
        # Before it first started, only the project's code knows what a task reads; this is said.
        told = any("which outputs these tasks read" in line["message"] for line in run.of("warning"))
        holds("it is given that one alone, or it is told", third not in title if entry_point else told)


@row("parts", "a tool class")
def class_tool(stage: Stage) -> None:
    stage.model.calls_tools = True
    gone_on(stage, "with_class_tool")
    same("called", stage.traced(), ["class tool words"])


@row("parts", "a tool class, without an entry point")
def class_tool_alone(stage: Stage) -> None:
    location = stage.recorded("class tool")
    stage.model.calls_tools = True
    start, before = after(location, 2), marks(location)
    run = stage.run(request_for(start, location, kind="resume"))
    succeeded(run)
    same("called", stage.traced(), ["class tool words"])
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)


@row("parts", "a tool made by @tool")
def function_tool(stage: Stage) -> None:
    stage.model.calls_tools = True
    run = gone_on(stage, "with_function_tool")
    same("called", stage.traced(), ["function tool words"])
    said = [line["message"] for line in run.of("warning")]
    holds("what the checkpoints cannot hold is told", any("count_words" in words for words in said))
    location = stage.folder / "simple.json/store"
    stage.model.forget()
    ours = next(saved for saved in reversed(saved_in(location)) if saved.done == 3)
    refused = stage.run(request_for(ours, location, branch="alone"))
    same("status without the project's code", refused.end["status"], "failed")
    holds("it is refused in words", "made of a function" in refused.end["error"])
    same("model calls when refused", len(stage.model.requests), 0)


@row("parts", "guardrail, task and step callbacks")
def callbacks(stage: Stage) -> None:
    stage.model.calls_tools = True
    gone_on(stage, "with_callbacks")
    traced = stage.traced()
    same("guardrail", traced.count("guardrail"), 1)
    same("task's callback", traced.count("task callback"), 1)
    same("crew's callback of each task", traced.count("crew's task callback"), 2)
    holds("the step callback is called", "step callback" in traced)


@row("parts", "a model class of the project's own")
def own_model(stage: Stage) -> None:
    gone_on(stage, "with_own_model")
    same("called", stage.traced(), ["own model"] * 2)

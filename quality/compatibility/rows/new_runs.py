"""New runs of the project's crew, flow and agent."""

from quality.compatibility.rows import row
from quality.compatibility.sandbox import Sandbox, holds, same
from tests.engine_runs.checkpoints import is_chain
from tests.engine_runs.runs import marks, new_run_request, saved_in

INPUTS = {"topic": "bees", "year": 1999, "tags": ["x", 2]}


@row("new run", "a crew with typed inputs that keeps its latest checkpoints")
def crew(sandbox: Sandbox) -> None:
    location = sandbox.recorded("simple")
    before = marks(location)
    events = {"events": ["task_started", "task_completed"], "max_checkpoints": 2}
    run = sandbox.continued(
        new_run_request(location, "crew", "press_parts:plain", INPUTS, events), "Collect Check Write Title"
    )
    holds(
        "the first task is asked with the inputs",
        "Collect bees in 1999, ['x', 2]" in sandbox.model.prompts()[0],
    )
    now = marks(location)
    same(
        "files of others that changed or went", [path for path in before if now.get(path) != before[path]], []
    )
    new = [saved for saved in saved_in(location) if saved.source not in before]
    same("reported checkpoints", len(run.of("checkpoint")), 8)
    same(
        "checkpoints left",
        [saved.source for saved in new],
        [line["path"] for line in run.of("checkpoint")[-2:]],
    )
    same("saved inputs", new[-1].root.get("checkpoint_inputs", INPUTS), INPUTS)


@row("new run", "a flow with a typed state")
def flow(sandbox: Sandbox) -> None:
    location = sandbox.folder / "store"
    asked = {"topic": "bees", "year": 1999}
    sandbox.completed(new_run_request(location, "flow", "press_flow:PressFlow", asked))
    holds("the short way is gone", any("Write briefly" in prompt for prompt in sandbox.model.prompts()))
    new = saved_in(location)
    holds("checkpoints are a chain of parents", is_chain("", new))
    state = new[-1].root["checkpoint_state"]
    same("state", (state["topic"], state["year"]), ("bees", 1999))


@row("new run", "an agent with its message")
def agent(sandbox: Sandbox) -> None:
    location = sandbox.folder / "store"
    asked = {"messages": "Ask about bees"}
    sandbox.completed(new_run_request(location, "agent", "press_agent:interviewer", asked))
    same("model calls", len(sandbox.model.requests), 1)
    holds("it is asked its message", "Ask about bees" in sandbox.model.prompts()[0])
    same("branches written", {saved.branch for saved in saved_in(location)}, {"main"})

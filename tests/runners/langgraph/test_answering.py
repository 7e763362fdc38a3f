"""A fork that only answers questions runs no node again that had finished, as LangGraph's own resume."""

import json
from typing import Any

from tests.engine_runs.graphs import PROJECT, RUNNER, Graphs, digests, run_program

CATS = {"topic": "cats"}
# A script of the project's user.
OPENED = """
import json, sqlite3
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from asking import beside_graph
saver = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))
graph, config = beside_graph().compile(checkpointer=saver), {"configurable": {"thread_id": "beside"}}
"""


def recorded(graphs: Graphs, graph: str, *actions: dict[str, Any]) -> None:
    """Run a graph of the module asking with LangGraph, on a thread of its name."""
    arguments = [str(graphs.store), f"asking:{graph}", graph, json.dumps([{"input": CATS}, *actions]), "{}"]
    run_program(graphs.engine, graphs.folder, PROJECT / "by_langgraph.py", *arguments)
    graphs.nodes()


def request(graphs: Graphs, graph: str, **options: Any) -> dict[str, Any]:
    return graphs.request("fork", f"asking:{graph}", graph, **options)


def answered(graphs: Graphs, request: dict[str, Any], *answers: str) -> tuple[list[str], list[str]]:
    """Run a fork, which leaves the store as it was. Return the questions and the result's notes."""
    before = digests(graphs.folder)
    ended = graphs.completed(request, *answers)
    assert digests(graphs.folder) == before
    prompts = [one["prompt"] for one in ended.of("question")]
    return prompts, json.loads(ended.end["result"])["notes"]


def asked_by(graphs: Graphs) -> dict[str, str]:
    """The id of each question by its node."""
    code = """
tasks = graph.get_state(config).tasks
found = {task.name: one for task in tasks for one in task.interrupts}
ids = {name: getattr(one, "id", "") or getattr(one, "interrupt_id", "") for name, one in found.items()}
print(json.dumps(ids))
"""
    found: dict[str, str] = json.loads(graphs.by_engine(OPENED + code, str(graphs.store)).splitlines()[-1])
    return found


def test_a_question_that_is_asked_while_the_fork_runs(graphs: Graphs) -> None:
    recorded(graphs, "single")
    prompts, notes = answered(graphs, request(graphs, "single", steps=["first"]), "x", "y")
    assert prompts == ["one on cats?", "two on cats?"]
    assert graphs.nodes() == ["end", "first", "first"]
    assert sorted(notes) == ["done on cats", "end on cats", "first got x and y"]


def test_an_answer_that_is_given_before_the_start(graphs: Graphs) -> None:
    recorded(graphs, "single")
    given = request(graphs, "single", typed={"answers": {"": "x"}})
    prompts, notes = answered(graphs, given, "y")
    assert prompts == ["two on cats?"] and "first got x and y" in notes
    assert graphs.nodes() == ["end", "first", "first"]


def test_the_second_question_of_a_node(graphs: Graphs) -> None:
    recorded(graphs, "single", {"answer": "x"})
    prompts, notes = answered(graphs, request(graphs, "single"), "other")
    assert prompts == ["two on cats?"] and "first got x and other" in notes
    assert graphs.nodes() == ["end", "first"]


def test_the_second_question_of_a_node_is_answered_in_its_thread(graphs: Graphs) -> None:
    recorded(graphs, "single", {"answer": "x"})
    (event,) = graphs.run({**request(graphs, "single"), "kind": "preflight"}).of("preflight")
    assert "first" in event["report"]["next"]
    given = graphs.request("resume", "asking:single", "single", typed={"answers": {"": "y"}})
    ended = graphs.completed(given)
    assert [step["unit"] for step in ended.of("steps")[0]["steps"]] == ["first"]
    assert "first got x and y" in json.loads(ended.end["result"])["notes"]
    assert graphs.nodes() == ["end", "first"]


def test_a_node_that_waits_again_runs_next_although_an_old_engine_leaves_it_out(graphs: Graphs) -> None:
    recorded(graphs, "single", {"answer": "x"})
    code = f"""
import json, sqlite3
sys.path.insert(0, {str(RUNNER.parent)!r})
from langgraph.checkpoint.sqlite import SqliteSaver
from asking import single
from forkline_langgraph.running import next_nodes
saver = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))
graph, config = single.copy(update={{"checkpointer": saver}}), {{"configurable": {{"thread_id": "single"}}}}
state = graph.get_state(config)
# Before 1.2, a task with any answer counts as one that has finished.
graph.get_state = lambda config: state._replace(next=())
print(json.dumps(next_nodes(graph, config)))
"""
    assert json.loads(graphs.by_engine(code, str(graphs.store)).splitlines()[-1]) == ["first"]


def test_a_node_with_one_of_two_answers_asks_again_after_an_edit(graphs: Graphs) -> None:
    recorded(graphs, "single", {"answer": "x"})
    prompts, notes = answered(graphs, request(graphs, "single", state={"topic": "dogs"}), "y", "z")
    assert prompts == ["one on dogs?", "two on dogs?"] and "first got y and z" in notes
    # With an edit, what had finished runs again.
    assert graphs.nodes() == ["done", "end", "first", "first", "first"]


def test_answers_to_some_of_several_questions(graphs: Graphs) -> None:
    recorded(graphs, "beside")
    if graphs.version < (0, 4):
        ended = graphs.run(request(graphs, "beside"), "x", "y")
        assert "cannot distinguish their answers" in ended.end["error"] and graphs.nodes() == []
        return
    ids = asked_by(graphs)
    given = request(graphs, "beside", typed={"answers": {ids["second"]: "y"}})
    prompts, notes = answered(graphs, given, "x")
    assert prompts == ["first on cats?"]
    assert sorted(notes) == ["done on cats", "end on cats", "first got x", "second got y"]
    assert graphs.nodes().count("done") == 0


def test_a_question_whose_neighbour_was_answered(graphs: Graphs) -> None:
    if graphs.version < (0, 4):
        # LangGraph cannot answer one of them.
        return
    recorded(graphs, "beside")
    by_id = json.dumps({asked_by(graphs)["first"]: "x"})
    code = f"{OPENED}graph.invoke(Command(resume=json.loads(sys.argv[2])), config)"
    graphs.by_engine(code, str(graphs.store), by_id)
    graphs.nodes()
    prompts, notes = answered(graphs, request(graphs, "beside"), "y")
    assert prompts == ["second on cats?"] and {"first got x", "second got y"} <= set(notes)
    assert graphs.nodes() == ["end", "second"]


def test_a_task_that_was_sent(graphs: Graphs) -> None:
    recorded(graphs, "sent")
    prompts, notes = answered(graphs, request(graphs, "sent", steps=["work 2"]), "x")
    assert prompts == ["b?"] and "work-b got x" in notes
    assert graphs.nodes() == ["end", "work-b"]


def test_a_question_in_a_subgraph(graphs: Graphs) -> None:
    recorded(graphs, "inside")
    prompts, notes = answered(graphs, request(graphs, "inside"), "x", "y")
    assert prompts == ["one on cats?", "two on cats?"] and "first got x and y" in notes
    # Before 1.2, a subgraph that continues runs its finished nodes again, in LangGraph as well.
    again = ["done", "done"] if graphs.version < (1, 2) else []
    assert graphs.nodes() == sorted(["after", "end", "first", "first", *again])


def test_what_runs_next_without_an_edit_has_not_finished(graphs: Graphs) -> None:
    recorded(graphs, "single")
    for state, following in ((None, ["first"]), ({"topic": "dogs"}, ["done", "first"])):
        ended = graphs.run({**request(graphs, "single", state=state), "kind": "next"})
        (event,) = ended.of("preflight")
        assert event["report"]["next_by_node"][0]["next"] == following


def test_the_schema_of_an_answer_is_asked_with_the_question(graphs: Graphs) -> None:
    if graphs.version < (1, 2):
        # An interrupt has no schema.
        return
    recorded(graphs, "typed")
    ended = graphs.completed(request(graphs, "typed"), '{"verdict": "approve", "amount": 4}', '"12"')
    first, second = ended.of("question")
    assert json.loads(first["context"]["schema"])["properties"]["verdict"]["enum"] == ["approve", "reject"]
    assert json.loads(second["context"]["schema"]) == {"type": "string", "pattern": "^[0-9]+$"}
    assert "output" not in second["context"]
    assert sorted(json.loads(ended.end["result"])["notes"]) == ["'12'", "approve 4", "done on cats"]
    assert graphs.nodes() == ["code", "code", "decide"]


def test_an_answer_that_its_node_refuses_is_asked_for_again(graphs: Graphs) -> None:
    if graphs.version < (1, 2):
        return
    recorded(graphs, "typed")
    given = request(graphs, "typed", typed={"answers": {"": {"verdict": "approve", "amount": 3}}})
    ended = graphs.completed(
        given, '{"verdict": "reject", "amount": 5}', '{"verdict": "reject", "amount": 6}', "a"
    )
    prompts = [one["prompt"] for one in ended.of("question")]
    assert [prompt.partition("\n")[0] for prompt in prompts] == ["Decide?", "Decide?", "Code?"]
    assert "must be even" in prompts[0] and "must be even" in prompts[1] and prompts[2] == "Code?"
    assert "reject 6" in json.loads(ended.end["result"])["notes"]

"""The plan of a fork or resume of LangGraph's checkpoints: the nodes that run next."""

from collections.abc import Iterator, Sequence
from typing import Any

from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.format import super_steps
from viewer.engines.langgraph.planning.editing import typed_state
from viewer.engines.langgraph.planning.questions import open_questions
from viewer.engines.planning.answer_schema import AnswerInvalid, check_answer
from viewer.engines.planning.outlook import Outlook
from viewer.engines.planning.plan import Action, EditRefused, Edits, Reason, Step, Unit
from viewer.messages.message import UserMessage


def units_of(contents: Contents) -> list[Unit]:
    """The nodes that run next. A checkpoint does not list the other nodes of the graph."""
    return [Unit(unit, unit) for unit, _node in _numbered(contents.triggered_nodes)]


def plan(contents: Contents, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
    """The nodes that run next, as far as the checkpoint shows. Raises EditRefused.

    A resume, or a fork that only answers questions, uses the writes of the nodes that have finished; another
    fork runs them again. If the edited state is attributed to a node, the list is empty: only the graph knows
    what follows.
    """
    _check(contents, edits, is_fork)
    if edits.as_node:
        return []
    following = contents.triggered_nodes
    if is_fork and not following and not edits.state and super_steps.is_last(contents.checkpoint):
        raise EditRefused("langgraph.nothing_to_fork")
    # A fork of a checkpoint asks again what was answered after it, if the rows do not hold the answer.
    asks = any(task.attempt.status == "waiting" for task in contents.tasks)
    if not is_fork or (asks and not edits.state):
        ended = (Action.KEPT, Reason.FINISHED)
    else:
        ended = (Action.AGAIN if edits.state else Action.RUNS, Reason.RUNS_AGAIN)
    finished = [task.node for task in contents.tasks if task.attempt.status == "done"]
    steps = []
    for position, (unit, node) in enumerate(_numbered(following), 1):
        is_finished = node in finished
        if is_finished:
            finished.remove(node)
        action = ended if is_finished else (Action.RUNS, Reason.UNFINISHED)
        steps.append(Step(unit, position, unit, "", *action))
    return steps


def _check(contents: Contents, edits: Edits, is_fork: bool) -> None:
    for what in ("inputs", "outputs", "again", "keep"):
        if getattr(edits, what):
            raise EditRefused("langgraph.only_state", what=what)
    if contents.namespace and not (is_fork and contents.is_waited_for):
        raise EditRefused("langgraph.subgraph_not_forkable")
    typed_state(contents, edits.state or {})
    if not is_fork and (edits.state or edits.as_node):
        raise EditRefused("langgraph.resume_has_no_edits")
    if edits.answers and (edits.state or edits.as_node):
        raise EditRefused("langgraph.answer_and_edit")
    questions = list(open_questions(contents)) if edits.answers else []
    if edits.answers and not questions:
        raise EditRefused("langgraph.no_interrupt")
    for question in questions:
        name = "" if "" in edits.answers and len(questions) == 1 else question.id
        if question.schema and name in edits.answers:
            try:
                check_answer(edits.answers[name], question.schema)
            except AnswerInvalid as invalid:
                raise EditRefused(invalid.message) from invalid


def _numbered(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a unit and its node. If a node runs several times, its units are numbered from the second."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
        yield (node if counts[node] == 1 else f"{node} {counts[node]}"), node


def outlook(contents: Contents, source: Any = None) -> Outlook:
    """A note that an edited state may lead to other nodes."""
    return Outlook(notes=() if contents.namespace else (UserMessage("langgraph.other_nodes"),))

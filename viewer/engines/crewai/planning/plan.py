"""The steps of a fork or resume, exactly as CrewAI runs them. Nothing is read or written."""

from collections.abc import Sequence

from viewer.engines.crewai.planning.flow_plan import Following
from viewer.engines.crewai.planning.placeholders import has_placeholder
from viewer.engines.planning.plan import Action, EditRefused, Edits, Reason, Step, Unit


def plan_of(
    entity: str, units: Sequence[Unit], edits: Edits, following: Following | None = None
) -> list[Step]:
    """The steps of a checkpoint whose root is a ``crew``, a ``flow`` or an ``agent``. Raises EditRefused.

    ``following`` is what follows in a flow according to the project's source.
    """
    if entity == "flow":
        return plan_flow(units, edits, following)
    plans = {"crew": plan_crew, "agent": plan_agent}
    if entity not in plans:
        raise EditRefused("edit.nothing_to_run")
    return plans[entity](units, edits)


def plan_crew(units: Sequence[Unit], edits: Edits) -> list[Step]:
    """The steps of a crew, in order. Raises EditRefused for an edit that cannot take effect.

    The engine runs every task from the first one without an output. So if a task runs again or its output
    was edited, all finished tasks behind it run again, except for tasks that a person edits or keeps: these
    are held, and not called.

        task     1 done    2 done    3 done    4 open
        edit 2   KEPT      EDITED    AGAIN     RUNS
        again 1  AGAIN     AGAIN     AGAIN     RUNS
        both     AGAIN     PINNED    AGAIN     RUNS

    A task without an output before tasks that have one was skipped because its condition did not hold, or
    was still running in parallel. It makes no other task run again. Async tasks between two others run at the
    same time, so an edit of one of them is read by the tasks behind, but not by the others.
    """
    _refuse_what_cannot_hold(units, edits)
    if edits.state is not None:
        raise EditRefused("edit.crew_has_no_state")
    steps: list[Step] = []
    behind: Reason | None = None
    # The same for the tasks behind the async tasks that run at the same time.
    beside: Reason | None = None
    furthest = max((position for position, unit in enumerate(units, 1) if unit.done), default=0)
    for position, unit in enumerate(units, 1):
        # The engine waits for async tasks before it evaluates a condition.
        if beside and (not unit.runs_beside or unit.is_conditional):
            behind, beside = _stronger(behind, beside), None
        action, reason = _of_task(unit, edits, behind)
        if action in (Action.RUNS, Action.MAY) and position < furthest:
            why = Reason.CONDITION if action is Action.MAY else Reason.PASSED_OVER
            steps.append(Step(unit.id, position, unit.title, unit.agent, action, why))
            continue
        is_kept_as_made = action is Action.KEPT or reason is Reason.HELD
        stale = _stale_inputs(unit, edits) if is_kept_as_made else ()
        steps.append(Step(unit.id, position, unit.title, unit.agent, action, reason, stale))
        effect = None
        if action in (Action.RUNS, Action.AGAIN, Action.MAY):
            effect = Reason.BEHIND_RERUN
        elif action is Action.EDITED:
            effect = Reason.READS_EDITED
        if unit.runs_beside:
            beside = _stronger(beside, effect)
        else:
            behind = _stronger(behind, effect)
    return steps


def _stronger(one: Reason | None, other: Reason | None) -> Reason | None:
    return one if one is Reason.BEHIND_RERUN or other is None else other


def plan_flow(units: Sequence[Unit], edits: Edits, following: Following | None = None) -> list[Step]:
    """The steps of a flow: its methods. Raises EditRefused.

    Only the state of a flow can be edited: what a method returned has been passed on already.
    Without ``following``, methods that have not run are known only if they are recorded.
    """
    _refuse_unknown(units, edits)
    if edits.outputs:
        raise EditRefused("edit.flow_outputs_not_editable")
    if edits.inputs:
        raise EditRefused("edit.flow_inputs_are_state")
    if edits.again:
        raise EditRefused("edit.flow_method_cannot_rerun")
    if following is None:
        return [
            Step(unit.id, position, unit.title, unit.agent, *_without_edits(unit))
            for position, unit in enumerate(units, 1)
        ]
    recorded = {unit.id: unit for unit in units if unit.done or unit.count}
    names = dict.fromkeys([*recorded, *following.certain, *following.possible])
    return [
        Step(name, position, name, "", *_of_method(name, name in recorded, following))
        for position, name in enumerate(names, 1)
    ]


def _of_method(name: str, has_run: bool, following: Following) -> tuple[Action, Reason]:
    if name in following.certain:
        return (Action.AGAIN, Reason.TRIGGERED) if has_run else (Action.RUNS, Reason.UNFINISHED)
    if name in following.possible:
        return (Action.KEPT, Reason.MAY_REPEAT) if has_run else (Action.MAY, Reason.ROUTED)
    return Action.KEPT, Reason.FINISHED


def plan_agent(units: Sequence[Unit], edits: Edits) -> list[Step]:
    """The only step of a lone agent. Raises EditRefused.

    A finished agent runs again if its inputs changed, or on request.
    """
    _refuse_unknown(units, edits)
    if edits.outputs:
        raise EditRefused("edit.agent_output_is_result")
    if edits.state is not None:
        raise EditRefused("edit.agent_has_no_state")
    steps = []
    for position, unit in enumerate(units, 1):
        action, reason = _without_edits(unit)
        if unit.done and edits.inputs:
            action, reason = Action.AGAIN, Reason.STALE_INPUT
        elif unit.done and unit.id in edits.again:
            action, reason = Action.AGAIN, Reason.REQUESTED
        steps.append(Step(unit.id, position, unit.title, unit.agent, action, reason))
    return steps


def _without_edits(unit: Unit) -> tuple[Action, Reason]:
    return (Action.KEPT, Reason.FINISHED) if unit.done else (Action.RUNS, Reason.UNFINISHED)


def _of_task(unit: Unit, edits: Edits, behind: Reason | None) -> tuple[Action, Reason]:
    """Return the step of one task. ``behind`` is the reason if an earlier task makes it run again."""
    if not unit.done:
        return (Action.MAY, Reason.CONDITION) if unit.is_conditional else (Action.RUNS, Reason.UNFINISHED)
    if unit.id in edits.outputs:
        # The task is held only if the engine would run it, which is after a step that runs.
        return (Action.PINNED if behind is Reason.BEHIND_RERUN else Action.EDITED), Reason.EDITED
    if unit.id in edits.again:
        return Action.AGAIN, Reason.STALE_INPUT if _stale_inputs(unit, edits) else Reason.REQUESTED
    if behind is None:
        return Action.KEPT, Reason.FINISHED
    if unit.id in edits.keep:
        return Action.PINNED, Reason.HELD
    return Action.AGAIN, Reason.CONDITION if unit.is_conditional else behind


def _stale_inputs(unit: Unit, edits: Edits) -> tuple[str, ...]:
    """The changed inputs that this unit's prompt uses."""
    return tuple(name for name in edits.inputs if has_placeholder(unit.template, name) or name in unit.uses)


def _refuse_unknown(units: Sequence[Unit], edits: Edits) -> None:
    known = {unit.id for unit in units}
    unknown = [name for name in (*edits.outputs, *edits.again, *edits.keep) if name not in known]
    if unknown:
        raise EditRefused("edit.unknown_task", name=unknown[0])


def _refuse_what_cannot_hold(units: Sequence[Unit], edits: Edits) -> None:
    _refuse_unknown(units, edits)
    for position, unit in enumerate(units, 1):
        if unit.id in edits.outputs and not unit.done:
            raise EditRefused(
                "edit.output_of_unfinished_task",
                position=position,
            )
        if unit.id in edits.outputs and unit.id in edits.again:
            raise EditRefused(
                "edit.rerun_and_edited",
                position=position,
            )
        if unit.id in edits.keep and unit.id in edits.again:
            raise EditRefused("edit.rerun_and_held", position=position)
        if unit.id in edits.keep and not unit.done:
            raise EditRefused("edit.hold_of_unfinished_task", position=position)

"""Messages of the CrewAI runner about restoring a checkpoint. It reads this file by its path."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
    "crewai.agent_role_ambiguous": _(
        "The checkpoint's agent %(position)s, “%(title)s”: several agents of the project have this role."
    ),
    "crewai.agent_role_unknown": _(
        "The checkpoint's agent %(position)s, “%(title)s”: no agent of the project has this role."
    ),
    "crewai.cannot_restore": _("This version of CrewAI cannot restore the checkpoint (%(reasons)s)."),
    "crewai.cannot_restore_without_entry_point": _(
        "This version of CrewAI cannot restore the checkpoint (%(reasons)s). Name the entry point: with "
        "the project's code, less has to be restored."
    ),
    "crewai.checkpoint_deleted": _(
        "The checkpoint %(checkpoint)s no longer exists at its location: it was deleted after this run "
        "was requested. Nothing has run. Start from another checkpoint, or fork or resume this one again, "
        "which uses its stored copy."
    ),
    "crewai.checkpoint_unreadable": _("The checkpoint %(source)s cannot be read: %(error)s"),
    "crewai.foreign_database": _("%(path)s is now a different database, without a table of checkpoints."),
    "crewai.location_is_link": _(
        "The location %(path)s now leads to %(place)s. Add that path as a location."
    ),
    "crewai.losses_not_accepted": _(
        "Nothing has run: these components would be lost, and nobody has accepted that: %(parts)s."
        " Accept the losses in the form or with --accept-losses, or name an entry point that has the"
        " components."
    ),
    "crewai.match_choices": _("Choose in the form, or pass --match %(asked)s=… with one of: %(choices)s."),
    "crewai.match_gone": _("If it was removed, choose that in the form, or pass --match %(asked)s=%(gone)s."),
    "crewai.model_address_unknown": _(
        "The checkpoint's model is served at %(address)s, which the project's environment does "
        "not name. Set %(variable)s in its environment file, or name the crew's entry point."
    ),
    "crewai.no_agent": _("This checkpoint holds no agent."),
    "crewai.no_crew": _("This checkpoint holds no crew."),
    "crewai.no_flow": _("This checkpoint holds no flow."),
    "crewai.no_task_left": _(
        "The checkpoint's task %(position)s, “%(title)s”, has not finished, and no task of the project is "
        "left to match it."
    ),
    "crewai.not_a_checkpoint": _("%(source)s is not a checkpoint."),
    "crewai.output_not_json": _("Task %(position)s returns JSON, but the new text is not JSON: %(error)s"),
    "crewai.output_not_json_object": _(
        "Task %(position)s returns a JSON object, but the new text is not one."
    ),
    "crewai.output_of_unfinished_task": _("Task %(position)s has not finished: it has no output to edit."),
    "crewai.plan_outdated": _("The checkpoint's tasks differ from the plan. Create the plan again."),
    "crewai.project_agent_chosen_twice": _(
        "The project's agent %(twice)r was chosen for two agents of the checkpoint."
    ),
    "crewai.project_crew_differs": _(
        "The crew of %(entry_point)s differs from the checkpoint's, and some of it has no certain match. "
        "%(questions)s"
    ),
    "crewai.project_task_chosen_twice": _(
        "The project's task %(twice)r was chosen for two tasks of the checkpoint."
    ),
    "crewai.removed_task_cannot_rerun": _(
        "Task %(position)s is no longer in the project, so it cannot run again."
    ),
    "crewai.result_class_unknown": _(
        "The checkpoint does not hold the class of the result of %(method)s: methods that read it receive "
        "a dictionary. Annotate what %(method)s returns (-> ThatClass) to restore it."
    ),
    "crewai.result_does_not_fit": _(
        "The result of %(method)s does not fit %(type)s, which the flow's annotations name: methods that "
        "read it receive the stored values."
    ),
    "crewai.sqlite_too_old": _(
        "This project's Python has SQLite %(version)s, and CrewAI's SQLite stores need 3.45 or "
        "newer. Install pysqlite3 into the project's environment: %(python)s -m pip install "
        "pysqlite3"
    ),
    "crewai.store_unreadable": _("%(path)s cannot be read as a checkpoint store: %(error)s"),
    "crewai.stored_copy_needs_entry_point": _(
        "This checkpoint was pruned, and its stored copy lacks what was redacted. Name the entry point: "
        "then keys and components come from the project's code."
    ),
    "crewai.task_agent_differs": _(
        "The checkpoint's task %(position)s, “%(title)s”: another agent performs it in the project."
    ),
    "crewai.task_needs_match": _(
        "The task “%(title)s” has not finished: match it to one of the project's tasks."
    ),
    "crewai.task_order_differs": _(
        "The checkpoint's task %(position)s, “%(title)s”: it has another position in the project."
    ),
    "crewai.task_text_ambiguous": _(
        "The checkpoint's task %(position)s, “%(title)s”: several tasks of the project have this text."
    ),
    "crewai.task_text_unknown": _(
        "The checkpoint's task %(position)s, “%(title)s”: no task of the project has this text."
    ),
    "crewai.tool_is_function": _(
        "The tool %(tool)s is a function, which a checkpoint cannot hold. Name the crew's entry point: "
        "then its tools come from the project's code."
    ),
    "crewai.tool_not_in_project": _(
        "The tool %(tool)s is outside the project's folder, so it is not imported for a checkpoint. Name "
        "the crew's entry point: then its tools come from the project's code."
    ),
    "crewai.unknown_project_agent": _("The project has no agent %(unknown)r."),
    "crewai.unknown_project_task": _("The project has no task %(unknown)r."),
}

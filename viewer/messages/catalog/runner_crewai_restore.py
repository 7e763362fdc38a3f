"""Messages of the CrewAI runner about restoring a checkpoint. It reads this file by its path."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
    "crewai.agent_role_ambiguous": _(
        "The checkpoint's agent %(position)s, “%(title)s”: several agents of the project have its role."
    ),
    "crewai.agent_role_unknown": _(
        "The checkpoint's agent %(position)s, “%(title)s”: no agent of the project has its role."
    ),
    "crewai.cannot_restore": _("This version of CrewAI cannot restore the checkpoint (%(reasons)s)."),
    "crewai.cannot_restore_without_entry_point": _(
        "This version of CrewAI cannot restore the checkpoint (%(reasons)s). Name the entry "
        "point: the project's own code needs less."
    ),
    "crewai.checkpoint_deleted": _(
        "The checkpoint %(checkpoint)s is not at its location any more: it was deleted after this"
        " run was asked for. Nothing has run. Start from another one; or fork or resume this one "
        "anew, which starts from the copy that is kept here."
    ),
    "crewai.checkpoint_unreadable": _("The checkpoint %(source)s cannot be read: %(error)s"),
    "crewai.foreign_database": _(
        "%(path)s is somebody else's database by now: it has no table of checkpoints."
    ),
    "crewai.location_is_link": _(
        "The location %(path)s leads to %(place)s by now. Add that as a location of its own."
    ),
    "crewai.losses_not_accepted": _(
        "Nothing has run, for this would be lost and nobody has accepted it: %(parts)s. Accept it"
        " in the form, or with --accept-losses; or name the entry point that has it."
    ),
    "crewai.match_choices": _("Choose in the form, or give --match %(asked)s=… with one of: %(choices)s."),
    "crewai.match_gone": _("Where it is gone, choose that in the form, or give --match %(asked)s=%(gone)s."),
    "crewai.model_address_unknown": _(
        "The checkpoint's model is served at %(address)s, which the project's environment does "
        "not name. Set %(variable)s in its environment file, or name the crew's entry point."
    ),
    "crewai.no_agent": _("There is no agent in this checkpoint."),
    "crewai.no_crew": _("There is no crew in this checkpoint."),
    "crewai.no_flow": _("There is no flow in this checkpoint."),
    "crewai.no_task_left": _(
        "The checkpoint's task %(position)s, “%(title)s”, has not finished, and the project has "
        "no task left for it."
    ),
    "crewai.not_a_checkpoint": _("%(source)s is no checkpoint."),
    "crewai.output_not_json": _("Task %(position)s answers in JSON, and the new text is none: %(error)s"),
    "crewai.output_not_json_object": _(
        "Task %(position)s answers in a JSON object, and the new text is none."
    ),
    "crewai.output_of_unfinished_task": _("Task %(position)s has not finished: it has no output to edit."),
    "crewai.plan_outdated": _("The checkpoint holds other tasks than the plan was made for: plan it again."),
    "crewai.project_agent_chosen_twice": _(
        "The project's agent %(twice)r was chosen for two of the checkpoint's."
    ),
    "crewai.project_crew_differs": _(
        "The crew of %(entry_point)s is not quite the checkpoint's, and what belongs to what is "
        "not guessed. %(questions)s"
    ),
    "crewai.project_task_chosen_twice": _(
        "The project's task %(twice)r was chosen for two of the checkpoint's."
    ),
    "crewai.removed_task_cannot_rerun": _(
        "Task %(position)s is not in the project any more, so it cannot run again."
    ),
    "crewai.result_class_unknown": _(
        "The checkpoint does not keep the class of what the method %(method)s has returned: what "
        "reads it is given a dictionary. Annotate what %(method)s returns (-> ThatClass) to have "
        "it."
    ),
    "crewai.result_does_not_fit": _(
        "What the method %(method)s has returned does not fit %(type)s, which the flow's "
        "annotations name: what reads it is given the values as they are."
    ),
    "crewai.sqlite_too_old": _(
        "This project's Python has SQLite %(version)s, and CrewAI's SQLite stores need 3.45 or "
        "newer. Install pysqlite3 into the project's environment: %(python)s -m pip install "
        "pysqlite3"
    ),
    "crewai.store_unreadable": _("%(path)s cannot be read as a store of checkpoints: %(error)s"),
    "crewai.stored_copy_needs_entry_point": _(
        "This checkpoint was pruned, and the copy that is kept of it lacks what was hidden in it."
        " Name the entry point: then keys and parts come from the project's own code."
    ),
    "crewai.task_agent_differs": _(
        "The checkpoint's task %(position)s, “%(title)s”: in the project another agent does it."
    ),
    "crewai.task_needs_match": _("The task “%(title)s” has not finished: it needs one of the project's."),
    "crewai.task_order_differs": _(
        "The checkpoint's task %(position)s, “%(title)s”: it stands at another place in the project."
    ),
    "crewai.task_text_ambiguous": _(
        "The checkpoint's task %(position)s, “%(title)s”: several tasks of the project have its text."
    ),
    "crewai.task_text_unknown": _(
        "The checkpoint's task %(position)s, “%(title)s”: no task of the project has its text."
    ),
    "crewai.tool_is_function": _(
        "The tool %(tool)s is made of a function, which a checkpoint cannot hold. Name the crew's"
        " entry point: then its tools come from the project's own code."
    ),
    "crewai.tool_not_in_project": _(
        "The tool %(tool)s is no part of the project's folder, so a checkpoint may not have it "
        "imported. Name the crew's entry point: then its tools come from the project's own code."
    ),
    "crewai.unknown_project_agent": _("The project has no agent %(unknown)r."),
    "crewai.unknown_project_task": _("The project has no task %(unknown)r."),
}

"""Messages of every runner. The runner reads this file by its path, so it imports nothing."""


def _(text: str) -> str:
    """The text itself: this marks it for makemessages."""
    return text


MESSAGES = {
    "runner.disk_full": _(
        "The run was stopped: no space is left on the disk of %(path)s. Free some, then resume from the last "
        "checkpoint."
    ),
    "runner.effects_not_accepted": _(
        "Nothing has run: the checkpoint has effects that nobody has accepted for this project: "
        "%(effects)s. Accept them in the form, or with --accept-effects; or name the entry point."
    ),
    "runner.engine_panicked": _(
        "The engine crashed while it wrote a checkpoint (%(error)s). Resume from the last one."
    ),
    "runner.entry_point_import_failed": _("%(entry_point)s cannot be imported: %(kind)s: %(error)s"),
    "runner.entry_point_malformed": _("The entry point %(entry_point)r must have the form module:name."),
    "runner.entry_point_name_missing": _(
        "%(entry_point)s does not exist: the module %(module)s has no %(name)s."
    ),
    "runner.input_during_preflight": _(
        "The project's code asks for input (%(prompt)s) while it is imported, so the check could not "
        "finish. The run will ask you."
    ),
    "runner.model_unreachable": _(
        "The model %(model)s could not be reached at %(address)s (%(error)s). Check that address in the "
        "project's settings, and that it answers. Then retry: what has finished is kept."
    ),
    "runner.module_in_other_folder": _(
        "%(entry_point)s cannot be imported: there is no module %(module)s, but %(folder)s has one. "
        "Choose that folder as the project's, and name the module as it is imported from there."
    ),
    "runner.module_missing": _(
        "%(entry_point)s cannot be imported: there is no module %(module)s in the project or its environment."
    ),
    "runner.password_input": _(
        "The project's code asks for a password (%(prompt)s). Set it in the project's environment file "
        "instead."
    ),
    "runner.project_exited": _("The project's code exited the program (sys.exit(%(code)s))."),
    "runner.project_folder_failed": _("The project's folder cannot be opened: %(error)s"),
    "runner.score_not_callable": _("%(function)s is not a function, so it cannot score anything."),
    "runner.score_of_other_type": _(
        "%(function)s returned a value of type %(type)s. A score is a number, a boolean or a text."
    ),
}

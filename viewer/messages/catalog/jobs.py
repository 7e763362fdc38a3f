"""Why a job does not start, and how it ended; why a preflight check found nothing."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "job.already_running": _("A child of this job is already there."),
    "job.checkpoints_failed": _(
        "Finished, but %(failed)d of %(total)d checkpoints could not be written: %(reason)s"
    ),
    "job.cut_off": _("The run was cut off: its process is gone and left no last word."),
    "job.cut_off_by_signal": _("The run was cut off: its process is gone and left no last word. (%(name)s)"),
    "job.environment_file_in_protected_folder": _(
        "The environment file lies in %(cover)s, which holds checkpoints."
    ),
    "job.environment_file_missing": _("The project's environment file is not there: %(path)s."),
    "job.environment_file_not_text": _("The project's environment file cannot be read as text: %(path)s."),
    "job.interpreter_in_protected_folder": _(
        "The interpreter lies in %(cover)s, which holds checkpoints or Forkline's data."
    ),
    "job.interpreter_missing": _(
        "The project's interpreter is not there: %(path)s. Set up its environment, or name another."
    ),
    "job.location_moved": _(
        "Finished, but %(failed)d of %(total)d checkpoints could not be written: the location was"
        " renamed, replaced or removed while the run wrote there."
    ),
    "job.never_started": _("The run was never started. Nothing was called; start it again."),
    "job.program_crashed": _("The run's program broke down: %(name)s (%(words)s)."),
    "job.program_exited": _(
        "The run's program ended with exit status %(status)d before it said how the run went."
    ),
    "job.program_killed": _("The run's program was ended by signal %(number)d."),
    "job.project_folder_missing": _("The project's folder is not there: %(path)s."),
    "job.project_in_protected_folder": _(
        "The project's code in %(folder)s lies in %(cover)s, which holds checkpoints or "
        "Forkline's data, and nothing is imported from there. Add as location only the folder "
        "that the checkpoints are in."
    ),
    "job.project_missing": _("This location has no project yet. Name its folder and interpreter first."),
    "job.project_not_confirmed": _(
        "Nobody has confirmed yet that programs of “%(name)s” may run. Confirm the project first."
    ),
    "job.python_path_in_protected_folder": _(
        "The project's Python looks for modules in %(entry)s (%(file)s), which lies in %(cover)s:"
        " there are checkpoints or Forkline's data, and nothing is imported from there."
    ),
    "job.stored_copy_missing": _(
        "The copy that is kept of this checkpoint is gone: its location was removed."
    ),
    "job.unfinished_in_backup": _(
        "It had not finished when the database was copied. Whether it has run since is not known."
    ),
    "preflight.checkpoint_removed": _("The checkpoint is gone: its location was removed."),
    "preflight.internal_error": _("Something went wrong here, and it is in the server's log."),
    "preflight.output_too_long": _("It wrote without end, and was ended."),
    "preflight.timed_out": _("It took longer than PREFLIGHT_SECONDS allows (%(seconds)d), and was ended."),
}

"""Why a job does not start, and how it ended; why a preflight check found nothing."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "job.already_running": _("Another process already runs this job."),
    "job.checkpoints_failed": _(
        "Finished, but %(failed)d of %(total)d checkpoints could not be written: %(reason)s"
    ),
    "job.cut_off": _("The run was interrupted: its process ended without a result."),
    "job.cut_off_by_signal": _("The run was interrupted: its process ended without a result (%(name)s)."),
    "job.disk_full": _(
        "The run was interrupted: no space was left on the disk of %(path)s, so its end could not be stored."
    ),
    "job.environment_file_in_protected_folder": _(
        "The environment file is in %(cover)s, which holds checkpoints."
    ),
    "job.environment_file_missing": _("The project's environment file does not exist: %(path)s."),
    "job.environment_file_not_text": _("The project's environment file is not a text file: %(path)s."),
    "job.interpreter_in_protected_folder": _(
        "The interpreter is in %(cover)s, which holds checkpoints or Forkline's data."
    ),
    "job.interpreter_missing": _(
        "The project's interpreter does not exist: %(path)s. Create its environment, or choose another "
        "interpreter."
    ),
    "job.location_moved": _(
        "Finished, but %(failed)d of %(total)d checkpoints could not be written: the location was"
        " renamed, replaced or removed while the run wrote there."
    ),
    "job.never_started": _("The run was not started, and nothing was called. Start it again."),
    "job.program_crashed": _("The run's program crashed: %(name)s (%(words)s)."),
    "job.program_exited": _("The run's program exited with status %(status)d before it reported a result."),
    "job.program_killed": _("The run's program was killed by signal %(number)d."),
    "job.project_folder_missing": _("The project's folder does not exist: %(path)s."),
    "job.project_in_protected_folder": _(
        "The project's code in %(folder)s is inside %(cover)s, which holds checkpoints or Forkline's "
        "data. Nothing is imported from there. Add only the folder that holds the checkpoints as a "
        "location."
    ),
    "job.project_missing": _(
        "This location has no project. Configure the project's folder and interpreter first."
    ),
    "job.project_not_confirmed": _(
        "Nobody has allowed the code of “%(name)s” to run yet. Confirm the project first."
    ),
    "job.python_path_in_protected_folder": _(
        "The project's Python imports modules from %(entry)s (%(file)s). This is inside %(cover)s, which "
        "holds checkpoints or Forkline's data. Nothing is imported from there."
    ),
    "job.stored_copy_missing": _(
        "The stored copy of this checkpoint no longer exists: its location was removed."
    ),
    "job.unfinished_in_backup": _(
        "The job had not finished when the database was copied. Whether it has run since is unknown."
    ),
    "preflight.checkpoint_removed": _("The checkpoint no longer exists: its location was removed."),
    "preflight.effects_first": _("Accept the effects of the checkpoint first: run the preflight check."),
    "preflight.internal_error": _("Forkline failed to run the check. See the server's log."),
    "preflight.output_too_long": _("The check was stopped because it wrote too much output."),
    "preflight.timed_out": _(
        "The check was stopped because it took longer than PREFLIGHT_SECONDS (%(seconds)d)."
    ),
}

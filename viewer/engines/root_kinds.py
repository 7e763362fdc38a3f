"""The kinds of root entities: what each is called and what it can do."""

from dataclasses import dataclass

from viewer.engines.checkpoint_events import EventPreset


@dataclass(frozen=True, slots=True)
class RootKind:
    """One kind of root entity, such as a team of agents or a graph. Its labels are English, to be translated.

    ``name`` is what rows store.
    """

    name: str
    label: str
    unit_label: str
    units_label: str
    # Forkline can fork and resume its runs, and start new ones.
    is_runnable: bool = True
    # Finished units can run again, and finished units that would run again can be held instead.
    can_rerun: bool = False
    can_hold: bool = False
    # Its checkpoints know only the units that have begun, so that their number is not known in advance.
    is_open_ended: bool = False
    # Why a run continues only with the project's own code, for a person who names no entry point.
    needs_entry_point: str = ""
    # Runs have a state, with or instead of inputs.
    has_state: bool = False
    # A model can be chosen for each agent, and the prompt cache be warmed.
    has_models: bool = False
    can_warm_cache: bool = False
    # Writes can be added to an entry of its state, so that an edit says whether it replaces the entry.
    adds_to_state: bool = False
    # A fork runs on a copy in a scratch store, so that the run at its location stays as it is.
    forks_on_copy: bool = False
    # Where such a fork can be published to, with labels. The first is the default.
    fork_targets: tuple[tuple[str, str], ...] = ()
    # A hint on a fork that is published into the run that it forked.
    moves_head: str = ""
    # A hint on a fork that is published as a new run, and what such a run is called.
    published_hint: str = ""
    run_label: str = "run"
    # A run can stop at breakpoints, and its code reads configurable values and context.
    has_run_settings: bool = False
    # How many of the newest checkpoints of a run and of the runs that it called are listed; 0 for all.
    max_listed: int = 0
    # Its runs read the checkpoint at its location: a stored copy is not enough.
    needs_source: bool = False
    # Its runs can write to a folder of JSON files.
    writes_folders: bool = True
    # Only the last checkpoint of a run can be resumed.
    resumes_last_only: bool = False
    # Its checkpoints name code that is imported even if the project's own code makes the root entity.
    always_has_effects: bool = False
    # The outputs of finished units can be edited.
    can_edit_outputs: bool = False
    # A run is refused if it lacks an input that its source names.
    needs_all_inputs: bool = False
    # A hint on runs that use the project's code.
    entry_point_hint: str = ""
    # The text of a plan without steps.
    no_steps: str = "Nothing in this checkpoint can run."
    # A person can add inputs that the form has no field for.
    can_add_inputs: bool = True
    inputs_label: str = "Inputs"
    # The label of the only input of a new run; empty if a new run has no such input.
    prompt: str = ""
    # A sentence on what a new run does.
    new_run: str = ""
    # The group of events at which such a run commonly writes checkpoints.
    usual_events: str = ""
    # The usual choices of events, which a form offers before all others.
    event_presets: tuple[EventPreset, ...] = ()
    # The trigger of a checkpoint after which a succeeded run had nothing left to do.
    last_trigger: str = ""


NO_KIND = RootKind("unknown", "unknown", "unit", "units", can_add_inputs=False)

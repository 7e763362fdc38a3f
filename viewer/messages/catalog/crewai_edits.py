"""What can be edited of a checkpoint, what a run reads of it, and why an edit is refused."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "edit.agents_have_former_value": _(
        "These agents were told the former value, and a checkpoint keeps no other text of them: "
        "%(roles)s. To give them the new one, name the crew's code under “Entry point”."
    ),
    "edit.code_missing": _(
        "Guardrails, callbacks, conditions and links between tasks are not in a checkpoint. "
        "Without the code that made this crew they cannot be restored: name it under “Starts "
        "with”, or add it to the project."
    ),
    "edit.flow_finished": _("By the flow's source, nothing is left to run."),
    "edit.flow_source_changed": _(
        "The flow's source has changed since this checkpoint, so other methods may follow than these."
    ),
    "edit.next_methods_unknown": _(
        "The flow's source does not say which methods follow: it names them when it starts."
    ),
    "edit.place_input": _("the input %(name)s"),
    "edit.place_method_result": _("what the method %(name)s has returned"),
    "edit.place_prompt": _("what the agent is asked"),
    "edit.place_state": _("%(name)s in the flow's state"),
    "edit.place_task_output": _("the output of task %(position)d"),
    "edit.prompt_unknown": _("The checkpoint does not say what the agent was asked: type it."),
    "edit.agent_has_no_state": _("A lone agent has no state to edit: edit its input."),
    "edit.agent_output_is_result": _(
        "A lone agent's output is its result: there is nothing behind it that would read an edit."
    ),
    "edit.crew_has_no_state": _("A crew has no state to edit: edit its inputs or the outputs of its tasks."),
    "edit.flow_inputs_are_state": _("A flow's inputs have become its state: edit the flow's state instead."),
    "edit.flow_method_cannot_rerun": _(
        "A flow's finished method cannot run again: fork from the checkpoint before it."
    ),
    "edit.flow_outputs_not_editable": _(
        "The outputs of a flow's methods cannot be edited: edit the flow's state instead."
    ),
    "edit.hold_of_unfinished_task": _("Task %(position)d has not finished: there is no output to keep."),
    "edit.nothing_to_run": _("Nothing in this checkpoint can be run: it holds no crew, flow or agent."),
    "edit.output_of_unfinished_task": _(
        "Task %(position)d has not finished: it will run and write over an edited output."
    ),
    "edit.rerun_and_edited": _(
        "Task %(position)d cannot run again and keep an edited output: choose one of the two."
    ),
    "edit.rerun_and_held": _("Task %(position)d cannot run again and be kept: choose one of the two."),
    "edit.unknown_task": _("There is no task %(name)r in this checkpoint."),
}

"""What can be edited of a checkpoint, what a run reads of it, and why an edit is refused."""

from viewer.messages.marking import gettext_noop as _

MESSAGES = {
    "edit.only_of_graphs": _("Only checkpoints of graphs have channels, nodes and interrupts."),
    "edit.agents_have_former_value": _(
        "These agents received the former value, and the checkpoint holds no template of their texts: "
        "%(roles)s. To give them the new value, name the crew's code under “Entry point”."
    ),
    "edit.code_missing": _(
        "Guardrails, callbacks, conditions and links between tasks are not in a checkpoint. They cannot "
        "be restored without the code that made this crew: name it under “Entry point”, or add it to the "
        "project."
    ),
    "edit.flow_finished": _("According to the flow's source, nothing is left to run."),
    "edit.flow_source_changed": _(
        "The flow's source has changed since this checkpoint, so other methods may follow."
    ),
    "edit.next_methods_unknown": _(
        "The flow's source does not say which methods follow: their names are built at run time."
    ),
    "edit.stored_input": _("the input %(name)s"),
    "edit.stored_method_result": _("the result of the method %(name)s"),
    "edit.stored_prompt": _("the agent's prompt"),
    "edit.stored_state": _("%(name)s in the flow's state"),
    "edit.stored_task_output": _("the output of task %(position)d"),
    "edit.prompt_unknown": _("The checkpoint does not hold the agent's prompt. Type it."),
    "edit.agent_has_no_state": _("A standalone agent has no state to edit: edit its input."),
    "edit.agent_output_is_result": _(
        "A standalone agent's output is its result: nothing after it would read an edit."
    ),
    "edit.crew_has_no_state": _("A crew has no state to edit: edit its inputs or the outputs of its tasks."),
    "edit.flow_inputs_are_state": _("A flow's inputs become its state: edit the flow's state instead."),
    "edit.flow_method_cannot_rerun": _(
        "A finished method of a flow cannot run again: fork from the checkpoint before it."
    ),
    "edit.flow_outputs_not_editable": _(
        "The outputs of a flow's methods cannot be edited: edit the flow's state instead."
    ),
    "edit.hold_of_unfinished_task": _("Task %(position)d has not finished, so it has no output to keep."),
    "edit.nothing_to_run": _("Nothing in this checkpoint can be run: it holds no crew, flow or agent."),
    "edit.output_of_unfinished_task": _(
        "Task %(position)d has not finished: it would overwrite an edited output."
    ),
    "edit.rerun_and_edited": _(
        "Task %(position)d cannot both run again and have an edited output. Choose one."
    ),
    "edit.rerun_and_held": _("Task %(position)d cannot both run again and be kept. Choose one."),
    "edit.unknown_task": _("This checkpoint has no task %(name)r."),
}

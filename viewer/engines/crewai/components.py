"""English labels of what a preflight check finds of a CrewAI run: its components, losses and open matches."""

from viewer.messages.marking import gettext_noop as _

# One component of each kind.
COMPONENTS = {
    "tools": _("tool"),
    "models": _("model"),
    "callbacks": _("callback"),
    "guardrails": _("guardrail"),
    "MCP servers": _("MCP server"),
    "platform apps": _("platform app"),
    "knowledge": _("knowledge"),
    "memory": _("memory"),
    "skills": _("skill"),
    "output files": _("output file"),
    "input files": _("input file"),
    "training files": _("training file"),
    "links": _("link to other tasks"),
    "conditions": _("condition"),
    "methods": _("method"),
    "tasks": _("task"),
}
# Losses that need a whole sentence.
LOSSES = {
    "unseen": _(
        "guardrails, callbacks and conditions that are functions: a checkpoint does not record whether there "
        "were any"
    ),
    "models": _("the project's own class of the model %(name)s: a plain model of this name is used instead"),
    "links": _("which tasks it reads: it receives the outputs of all earlier tasks"),
    "conditions": _("the condition for which it was skipped"),
    "tasks": _("the project's task %(name)s does not run: the checkpoint does not have it"),
    "providers": _(
        "the model %(name)s: its provider's package is not installed in the project's environment"
    ),
    "methods": _("the finished method %(name)s: the flow's class no longer has it"),
}
# A stored task or agent whose counterpart in the project is not certain.
MATCHES = {
    "agent": _("The checkpoint's agent “%(title)s” is"),
    "task": _("The checkpoint's task %(position)d, “%(title)s”, is"),
}
MATCH_REASONS = {
    "changed": _("nothing in the project has this text"),
    "twice": _("several in the project have this text"),
    "role": _("another agent performs it in the project"),
    "order": _("it has another position in the project"),
}

"""The model calls that the messages of a checkpoint record.

LangGraph records the conversation, and not what a node sent: the messages before an answer are those of its
channel. A system prompt, tools or parameters that the code adds are not recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from viewer.engines.langgraph.channels import ChatMessage, message_of, messages_in
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.super_steps import fields_of, mapping, sequence
from viewer.engines.langgraph.threads.rows import ANSWERS, call_in_message
from viewer.engines.recorded_calls import CallMessage, RecordedCall, RequestedTool
from viewer.stores.model_calls import NO_CALL

# The usage is shown apart from what else a model reported.
_USAGE = ("token_usage", "usage", "usage_metadata")


def recorded_calls(contents: Contents) -> Iterator[RecordedCall]:
    """The calls whose answers are in the state, then those whose answers its tasks have written.

    An answer that several channels hold is one call.
    """
    seen = set[str]()
    state = list[CallMessage]()
    for name, value in contents.channels.items():
        conversation = list[CallMessage]()
        for call in _answered(messages_in(value), sequence(value), conversation, name):
            if call.id not in seen:
                seen.add(call.id)
                yield replace(call, part=f"messages:{name}:{call.sent}")
        state = state or conversation
    for task in contents.tasks:
        conversation = list(state)
        for write in task.writes:
            values = write.value if isinstance(write.value, list) else [write.value]
            found = [(one, message) for one in values if (message := message_of(one)) is not None]
            messages = [message for _one, message in found]
            answers = [one for one, _message in found]
            for call in _answered(messages, answers, conversation, f"{task.id} {write.channel}"):
                if call.id not in seen:
                    seen.add(call.id)
                    yield call


def _answered(
    messages: Sequence[ChatMessage], values: Sequence[Any], conversation: list[CallMessage], place: str
) -> Iterator[RecordedCall]:
    """The calls whose answers are among these messages, which are added to the conversation.

    ``values`` are the messages as they are stored. ``place`` names those that have no id.
    """
    for number, (message, value) in enumerate(zip(messages, values, strict=False)):
        sent, answer = len(conversation), call_message(message)
        conversation.append(answer)
        if message.role != "assistant":
            continue
        fields = mapping(fields_of(value, *ANSWERS))
        usage = call_in_message(fields) or NO_CALL
        reported = mapping(fields.get("response_metadata"))
        yield RecordedCall(
            id=message.id or f"{place} {number}",
            model=usage.model or message.model,
            conversation=conversation,
            sent=sent,
            answer=answer,
            reported={name: one for name, one in reported.items() if name not in _USAGE},
            usage=usage,
            agent=message.name,
            is_conversation=True,
        )


def call_message(message: ChatMessage) -> CallMessage:
    """The message in the shape that engines share."""
    tools = tuple(RequestedTool(call.name, call.values, call.id) for call in message.calls)
    return CallMessage(
        message.role, message.text, message.name, tools, message.answers_call, len(message.others)
    )

"""The prompt of an agent that runs without a crew."""

from typing import Any

from viewer.engines.crewai.contents import Contents


def agent_prompt(contents: Contents) -> Any:
    """The agent's last prompt: a text, or a list of messages. None if the checkpoint does not record it."""
    prompts = [event.messages for event in contents.events if event.kind == "lite_agent_execution_started"]
    if not prompts or not prompts[-1]:
        return None
    messages = prompts[-1]
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return [{"role": message.role, "content": message.content} for message in messages]

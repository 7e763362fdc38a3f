"""Calls models with every client that this environment has, as projects do, and prints what each returned.

Run in an environment of its own. The variables of the environment are the only configuration.
"""

import asyncio
import json
from collections.abc import Callable
from importlib.util import find_spec

OPENAI, ANTHROPIC = "gpt-4o-mini", "claude-3-5-haiku-latest"
MESSAGES = [{"role": "user", "content": "Say words."}]


def openai() -> str:
    from openai import OpenAI

    return str(OpenAI().chat.completions.create(model=OPENAI, messages=MESSAGES).choices[0].message.content)


def openai_stream() -> str:
    from openai import OpenAI

    parts = OpenAI().chat.completions.create(model=OPENAI, messages=MESSAGES, stream=True)
    return "".join(part.choices[0].delta.content or "" for part in parts)


def openai_async() -> str:
    from openai import AsyncOpenAI

    async def call() -> str:
        done = await AsyncOpenAI().chat.completions.create(model=OPENAI, messages=MESSAGES)
        return str(done.choices[0].message.content)

    return asyncio.run(call())


def anthropic() -> str:
    from anthropic import Anthropic

    done = Anthropic().messages.create(model=ANTHROPIC, max_tokens=9, messages=MESSAGES)
    return str(done.content[0].text)


def anthropic_stream() -> str:
    from anthropic import Anthropic

    with Anthropic().messages.stream(model=ANTHROPIC, max_tokens=9, messages=MESSAGES) as stream:
        return "".join(stream.text_stream)


def langchain_openai() -> str:
    from langchain_openai import ChatOpenAI

    return str(ChatOpenAI(model=OPENAI).invoke("Say words.").content)


def langchain_openai_stream() -> str:
    from langchain_openai import ChatOpenAI

    return "".join(part.text for part in ChatOpenAI(model=OPENAI).stream("Say words."))


def langchain_anthropic() -> str:
    from langchain_anthropic import ChatAnthropic

    return str(ChatAnthropic(model=ANTHROPIC).invoke("Say words.").content)


def langchain_anthropic_stream() -> str:
    from langchain_anthropic import ChatAnthropic

    return "".join(part.text for part in ChatAnthropic(model=ANTHROPIC).stream("Say words."))


def _litellm(model: str) -> str:
    import litellm

    return str(litellm.completion(model=model, messages=MESSAGES).choices[0].message.content)


def _crewai(model: str) -> str:
    from crewai import LLM

    return str(LLM(model=model).call("Say words."))


MODELS = (f"openai/{OPENAI}", f"anthropic/{ANTHROPIC}", "deepseek/deepseek-chat", "openrouter/openai/gpt-4o")
# With the package that each needs.
CLIENTS: list[tuple[str, str, Callable[[], str]]] = [
    ("openai", "openai", openai),
    ("openai, streamed", "openai", openai_stream),
    ("openai, asynchronous", "openai", openai_async),
    ("anthropic", "anthropic", anthropic),
    ("anthropic, streamed", "anthropic", anthropic_stream),
    ("langchain-openai", "langchain_openai", langchain_openai),
    ("langchain-openai, streamed", "langchain_openai", langchain_openai_stream),
    ("langchain-anthropic", "langchain_anthropic", langchain_anthropic),
    ("langchain-anthropic, streamed", "langchain_anthropic", langchain_anthropic_stream),
    *((f"litellm, {model}", "litellm", lambda model=model: _litellm(model)) for model in MODELS),
    *((f"crewai, {model}", "crewai", lambda model=model: _crewai(model)) for model in MODELS),
]

if __name__ == "__main__":
    found = {}
    for name, package, call in CLIENTS:
        if find_spec(package):
            try:
                found[name] = call()
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"[:500]
    print("FOUND", json.dumps(found))

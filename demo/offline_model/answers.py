"""What the offline model says. The same request gets the same answer, and a changed one a changed answer."""

import json
import re
from dataclasses import dataclass
from typing import Any

from offline_model.prompt import YEAR, Prompt, read_prompt

SENTENCE = re.compile(r"[^.!?\n]+[.!?]")
ARCHIVE = "search_the_archive"


@dataclass(frozen=True, slots=True)
class Answer:
    """Either a text, or one or more calls of a tool, each with its arguments.

    ``tokens``: those of the prompt and of the answer, if they are not to be counted from the texts.
    """

    text: str = ""
    tool: str = ""
    calls: tuple[str, ...] = ()
    tokens: tuple[int, int] | None = None


def answer(request: dict[str, Any]) -> Answer:
    """The answer to a chat completion request."""
    prompt = read_prompt(request)
    if ARCHIVE in prompt.tools and len(prompt.notes) < len(prompt.sources):
        source = prompt.sources[len(prompt.notes)]
        return Answer(tool=ARCHIVE, calls=(json.dumps({"source": source, "question": prompt.topic}),))
    for words, write in WRITERS.items():
        if prompt.task.lower().startswith(words):
            return Answer(text=write(prompt))
    return Answer(text=reply(prompt))


def research(prompt: Prompt) -> str:
    """What the archive's notes say, source by source."""
    lines = [f"## Research: {prompt.topic} for {prompt.year}", ""]
    lines += [
        f"- **{source}**: {' '.join(sentences(note)) or note}"
        for source, note in zip(prompt.sources, prompt.notes, strict=False)
    ]
    if not prompt.notes:
        lines.append(f"- Nothing was looked up; what follows on {prompt.topic} rests on no source.")
    lines += [
        "",
        f"Taken together, {len(prompt.notes)} sources say what matters to readers in {prompt.year}.",
    ]
    return "\n".join(lines)


def draft(prompt: Prompt) -> str:
    """Three paragraphs made of the research."""
    facts = bullets(prompt.context) or sentences(prompt.context)[:3]
    opening = (
        f"In {prompt.year}, {prompt.topic} stopped being a detail and became something that people plan with."
    )
    middle = " ".join(f"{fact.rstrip('.')}." for fact in facts) or "The research for this article is empty."
    closing = f"Whoever starts in {prompt.year} can start small: keep one run, change one thing, and compare."
    return f"# {title(prompt.topic)} in {prompt.year}\n\n{opening}\n\n{middle}\n\n{closing}"


def fact_check(prompt: Prompt) -> str:
    """Each statement of the draft, and whether the research holds its numbers."""
    earlier, _, article = prompt.context.rpartition("# ")
    known = numbers(earlier)
    claims = [{"statement": claim, "holds": numbers(claim) <= known} for claim in sentences(article)]
    held = sum(1 for claim in claims if claim["holds"])
    verdict = f"{held} of {len(claims)} statements hold."
    if prompt.wants_json:
        return json.dumps({"verdict": verdict, "claims": claims}, indent=2)
    doubts = [f"- Doubtful: {claim['statement']}" for claim in claims if not claim["holds"]]
    return "\n".join([verdict, *doubts])


def headline(prompt: Prompt) -> str:
    """One line: the year, what it is about, and the start of the draft."""
    article = prompt.context.rpartition("# ")[2] or prompt.context
    first = (sentences(article) or [prompt.topic])[0].rstrip(".!?")
    first = re.sub(rf"^In {YEAR.pattern}, ", "", first)
    words = first.split()
    short = " ".join(words[:14]) + (" …" if len(words) > 14 else "")
    about = prompt.year if prompt.topic in first else f"{title(prompt.topic)}, {prompt.year}"
    return f"**{about}: {title(short)}**"


def outline(prompt: Prompt) -> str:
    """Three points on the topic."""
    return (
        f"1. The case for {prompt.topic} in {prompt.year}\n"
        f"2. What changed since {int(prompt.year or 2026) - 1}\n"
        f"3. What to try first with {prompt.topic}"
    )


def digest(prompt: Prompt) -> str:
    """One sentence for each point of the outline."""
    points = [line.partition(". ")[2] or line for line in prompt.context.splitlines() if line.strip()]
    return f"Digest on {prompt.topic}. " + " ".join(f"{point}: worth a look this week." for point in points)


def reply(prompt: Prompt) -> str:
    """An answer to anything else, in which the question can be recognised."""
    question = prompt.task.splitlines()[0] if prompt.task else "nothing"
    text = f"You asked: {question} In short: keep every run that cost something, and branch from it."
    if prompt.context:
        text += f" What you gave me begins with: {(sentences(prompt.context) or [prompt.context])[0].strip()}"
    return text


# The first words of a task, and who answers it.
WRITERS = {
    "research": research,
    "draft": draft,
    "fact-check": fact_check,
    "write the headline": headline,
    "outline": outline,
    "write a digest": digest,
}


def sentences(text: str) -> list[str]:
    """The sentences of a text, without headings."""
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [sentence.strip(" -*") for sentence in SENTENCE.findall(prose)]


def bullets(text: str) -> list[str]:
    """The lines of a list, without their marks."""
    return [line[2:].replace("**", "") for line in text.splitlines() if line.startswith("- ")]


def numbers(text: str) -> set[str]:
    """Every number in it, as written."""
    return set(re.findall(r"\d[\d,.]*\d|\d", text))


def title(topic: str) -> str:
    return topic[:1].upper() + topic[1:]

"""Reports every key in ``keys.json`` wherever a run or a preflight check reports text."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

from forkline_runner.reporting import Questions, Reporter, message, plain_text

spool = tiny.begin()
reporter = Reporter(spool)
questions = Questions(tiny.FOLDER, reporter, tiny.load_spool().answer_name)
found = json.loads(Path("keys.json").read_text())
text = "\n".join(found["texts"])
# Neither half resembles a key.
split = message("crewai.cache_failed", kind="password", error="CANARY79")
print(text, file=sys.stderr, flush=True)
if tiny.request().get("kind") == "preflight":
    part = {"what": "tools", "name": text, "task": 1, "agent": text, "fate": "lost"}
    asked = {
        "kind": "task",
        "saved": "1",
        "position": 1,
        "title": text,
        "reason": "none",
        "choices": [["1", text]],
    }
    notes = [{"what": "unwritten", "detail": text}]
    blocks = {"blocks": [plain_text(text), split]}
    reporter.write("preflight", report={"components": [part], "questions": [asked], "notes": notes, **blocks})
    reporter.end("succeeded")
    sys.exit()
reporter.warn(text)
reporter.warn("plain_text", text=text)
reporter.warn(split["code"], **split["values"])
reporter.warn("import.being_written", why=[plain_text(text), split])
step = {"unit": "1", "position": 1, "title": text, "action": "runs"}
reporter.write("steps", steps=[step])
reporter.write("task_started", task="1", position=1, description=text, agent=text)
reporter.write("tool_started", tool=text, agent="a", arguments=json.dumps(found["values"]))
reporter.write("model_failed", model="m", agent="a", error=text)
reporter.stream(text + "\n", "a")
reporter.write("task_completed", task="1", position=1, output=text, agent="a")
questions.ask("human_feedback", text, method=text, output=found["values"], choices=[text], agent=text)
reporter.end(
    "failed",
    result=text,
    error=message("import.being_written", why=[plain_text(text), split]),
    traceback=text,
)

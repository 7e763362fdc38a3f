"""Completes two steps."""

import tiny

spool = tiny.begin()
print("working")
for position, task in enumerate(["a", "b"], 1):
    spool.write("task_started", task=task, position=position, description=f"Task {task}", agent="Writer")
    spool.write("text", text=f"about {task}", agent="Writer")
    spool.write("model_completed", model="tiny", agent="Writer", tokens=10, total_tokens=10 * position)
    spool.write("task_completed", task=task, position=position, agent="Writer", output=f"output of {task}")
spool.write("ended", status="succeeded", result="all done", error="", traceback="")

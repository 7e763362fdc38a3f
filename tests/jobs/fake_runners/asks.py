"""Asks a question until the answer is not ``again``, and finishes with the last answer."""

import sys
from pathlib import Path

import tiny

sys.path.append(str(Path(__file__).resolve().parents[3] / "viewer" / "runners"))
from forkline_runner.questions import Questions
from forkline_runner.reporting import Reporter

spool = tiny.begin()
reporter = Reporter(spool)
questions = Questions(tiny.FOLDER, reporter, tiny.load_spool().answer_name)
try:
    answer = "again"
    while answer == "again":
        answer = questions.ask(
            "human_feedback",
            "Is it good?",
            method="draft",
            output="A draft with sk-proj-abcdefghijklmnopqrstuvwxyz0123456789 in it",
            choices=["rejected", "approved"],
        )
    reporter.end("succeeded", result=answer)
except KeyboardInterrupt:
    reporter.end("cancelled")

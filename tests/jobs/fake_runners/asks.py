"""Asks a question until the answer is not ``again``, and finishes with the last answer."""

import tiny

from forkline_runner.reporting import Questions, Reporter

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

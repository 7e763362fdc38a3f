"""The runner program of CrewAI; forkline_runner/program.py documents its protocol.

<the project's interpreter> crewai_runner.py <job folder>
"""

from forkline_crewai import job
from forkline_runner.program import EngineProgram, main

if __name__ == "__main__":
    main(EngineProgram(job.run, job.flush, steps=("task", "method")))

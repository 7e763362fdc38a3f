"""The runner program of LangGraph; forkline_runner/program.py documents its protocol.

<the project's interpreter> langgraph_runner.py <job folder>
"""

from forkline_langgraph import job
from forkline_runner.program import EngineProgram, main

if __name__ == "__main__":
    main(EngineProgram(job.run, job.flush, steps=("node",)))

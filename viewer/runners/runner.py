"""The runner program of every engine; forkline_runner/program.py documents its protocol.

<the project's interpreter> runner.py <job folder> <the module of the engine's jobs>
"""

import importlib
import sys

from forkline_runner.program import EngineProgram, main

if __name__ == "__main__":
    job = importlib.import_module(sys.argv[2])
    main(EngineProgram(job.run, job.flush, job.STEPS))

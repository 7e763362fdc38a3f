"""The runner program of every engine; forkline_runner/program.py documents its protocol.

<the project's interpreter> runner.py <job folder> <the module of the engine's jobs>
"""

if __name__ == "__main__":
    # Not above: processes that the project's code starts with ``multiprocessing`` import this file again,
    # without the folder of the runners.
    import importlib
    import sys
    from pathlib import Path

    # With PYTHONSAFEPATH, Python leaves this folder out, and PYTHONPATH could name other modules.
    sys.path.insert(0, str(Path(__file__).resolve().parent))

    from forkline_runner.program import EngineProgram, main

    job = importlib.import_module(sys.argv[2])
    main(EngineProgram(job.run, job.flush, job.STEPS))

"""``make bench``: every measurement under bench/, one after the other, each with its table."""

import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    for path in sorted((ROOT / "bench").glob("[a-z]*.py")):
        module = importlib.import_module(f"bench.{path.stem}")
        if hasattr(module, "main"):
            print(f"\n{path.stem.replace('_', ' ')}", flush=True)
            module.main()


if __name__ == "__main__":
    main()

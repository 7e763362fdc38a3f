"""Generates the location, imports it, and measures its pages.

python -m quality.benchmarks.large_location [CHECKPOINTS]
"""

import os
import sys
import tempfile
from pathlib import Path

from quality.benchmarks.large_location import corpus
from quality.temporary_data_folder import logged_in, temporary_data_folder


def main() -> None:
    """Print the tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else corpus.CHECKPOINTS
    # The form adds locations below these folders.
    os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
    with temporary_data_folder() as folder:
        source = folder / "checkpoints"
        kickoff = corpus.write(source, count)
        measure(source, kickoff)
        browse(folder / "data", kickoff)


def browse(data_folder: Path, kickoff: str) -> None:
    """Print what the page of the long run takes in a browser."""
    from quality.benchmarks.large_location.browser import report_browser
    from viewer.models import Run

    run = Run.objects.get(checkpoints__run_key=kickoff, checkpoints__row=0)
    report_browser(data_folder, run.get_absolute_url())


def measure(source: Path, kickoff: str) -> None:
    """Print how long the import and each page takes. Django is set up by now."""
    from quality.benchmarks.large_location.importing import report_import
    from quality.benchmarks.large_location.pages import report_pages

    client = logged_in()
    report_import(client, source)
    report_pages(client, kickoff)


if __name__ == "__main__":
    main()

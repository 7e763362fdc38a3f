"""``make messages`` updates the catalogues; ``check`` finds their mistakes, and ``compile`` compiles them."""

import argparse
import sys

from scripts.catalogues.compiling import compile_catalogues


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts.catalogues", description=__doc__)
    parser.add_argument("action", choices=["update", "check", "compile"])
    parser.add_argument("--complete", action="append", default=[], help="a language that must be complete")
    arguments = parser.parse_args()
    if arguments.action == "compile":
        compile_catalogues()
        return 0
    return update() if arguments.action == "update" else check(arguments.complete)


def update() -> int:
    """Write the catalogues of all languages with the texts that are marked now."""
    from scripts.catalogues.extraction import extracted
    from scripts.catalogues.files import PLURALS, read_catalogue, updated, write_catalogue

    texts = extracted()
    for language in PLURALS:
        write_catalogue(updated(texts, read_catalogue(language), language), language)
    compile_catalogues()
    return 0


def check(complete: list[str]) -> int:
    """Print the mistakes of all catalogues. Those of languages that users can choose must be complete."""
    from checkpoint_site.languages import COMPLETE
    from scripts.catalogues.checks import mistakes
    from scripts.catalogues.extraction import extracted
    from scripts.catalogues.files import PLURALS, read_catalogue

    texts = extracted()
    offered = {*complete, *COMPLETE}
    found = [
        line
        for language in PLURALS
        for line in mistakes(texts, read_catalogue(language), language, must_be_complete=language in offered)
    ]
    print("\n".join(sorted(found)), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

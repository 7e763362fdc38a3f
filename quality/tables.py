"""Markdown tables, printed row by row while they are measured."""


def print_heading(*columns: str) -> None:
    """Print the head of a table. The first column is aligned to the left, the others to the right."""
    print_row(*columns)
    print_row("---", *["---:"] * (len(columns) - 1))


def print_row(*cells: object) -> None:
    """Print one row of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)

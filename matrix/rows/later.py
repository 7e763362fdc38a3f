"""What is not tried yet: it stands in the table, so that nobody takes it for granted."""

from matrix.rows import row
from matrix.stage import Later, Stage

NAMES = (
    ("parts", "knowledge"),
    ("parts", "memory"),
    ("orders", "human_input"),
    ("flow", "@persist"),
    ("flow", "human feedback pending"),
    ("stores", "a pruned checkpoint that is only in the stored copy"),
)


def untried(stage: Stage) -> None:
    raise Later


for group, name in NAMES:
    row(group, name)(untried)

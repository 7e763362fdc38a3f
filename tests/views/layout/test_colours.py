"""Text has a contrast of at least 4.5:1 and controls of 3:1, in both themes."""

import re
from pathlib import Path

import pytest

CSS = Path(__file__).resolve().parents[3] / "static/css/design"
LIGHT_TEXT, DARK_TEXT = ((CSS / name).read_text() for name in ("variables.css", "dark.css"))
SURFACES = ("page", "panel", "raised", "hover", "selected")
ON_SURFACES = ("ink", "ink-soft", "good", "bad", "again", "warn", "accent-ink")
LANES = tuple(f"lane-{number}" for number in range(8))
ON_THEIR_OWN = (
    ("on-accent", "accent"),
    ("on-accent", "accent-hover"),
    ("good", "good-soft"),
    ("warn", "warn-soft"),
    ("bad", "bad-soft"),
    ("again", "again-soft"),
    ("ink", "good-soft"),
    ("ink", "warn-soft"),
    ("ink", "bad-soft"),
    ("ink", "added"),
    ("ink", "removed"),
    ("ink-soft", "chip"),
    ("ink", "chip"),
    ("ink-faint", "page"),
    ("ink-faint", "panel"),
    ("ink-faint", "raised"),
)


def theme(text: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text))


LIGHT = theme(LIGHT_TEXT)
THEMES = {"light": LIGHT, "dark": {**LIGHT, **theme(DARK_TEXT)}}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def mixed(colour: str, surface: str, share: float) -> str:
    """Return the colour over a surface with this opacity, as for a branch's chip."""
    parts = [
        round(int(colour[at : at + 2], 16) * share + int(surface[at : at + 2], 16) * (1 - share))
        for at in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


def too_faint(colours: dict[str, str], pairs: list[tuple[str, str]], least: float) -> dict[str, float]:
    found = {f"{one} on {other}": contrast(colours[one], colours[other]) for one, other in pairs}
    return {names: round(ratio, 2) for names, ratio in found.items() if ratio < least}


@pytest.mark.parametrize("name", THEMES)
def test_text_has_enough_contrast(name: str) -> None:
    pairs = [(text, surface) for text in ON_SURFACES for surface in SURFACES] + list(ON_THEIR_OWN)
    assert too_faint(THEMES[name], pairs, 4.5) == {}


@pytest.mark.parametrize("name", THEMES)
def test_branch_names_have_enough_contrast(name: str) -> None:
    colours = THEMES[name]
    for lane in LANES:
        assert contrast(colours[lane], mixed(colours[lane], colours["page"], 0.08)) >= 4.5, lane


@pytest.mark.parametrize("name", THEMES)
def test_lines_and_controls_have_enough_contrast(name: str) -> None:
    pairs = [(one, surface) for one in (*LANES, "accent", "bar") for surface in ("page", "selected", "hover")]
    edges = ("control-edge", "button-edge")
    pairs += [(edge, surface) for edge in edges for surface in ("page", "panel", "raised")]
    assert too_faint(THEMES[name], pairs, 3) == {}

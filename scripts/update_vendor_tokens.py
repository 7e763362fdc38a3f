"""Writes viewer/redaction/rules/vendor_tokens.toml from the rules that kingfisher-secret-scanner ships.

Run it with that package installed (`pip install kingfisher-secret-scanner`). Forkline does not depend on it.
Only rules whose tokens have a distinctive prefix are used: one pass over a text finds them.
"""

import json
import re
from pathlib import Path
from typing import Any

import re2

TARGET = Path(__file__).resolve().parent.parent / "viewer/redaction/rules/vendor_tokens.toml"
HEADER = """\
# Tokens of vendors: what each begins with, and its pattern for RE2.
# Written by scripts/update_vendor_tokens.py from kingfisher-secret-scanner {version} (Apache License 2.0,
# https://github.com/mongodb/kingfisher), whose rules derive from Betterleaks (MIT). Do not edit by hand.
"""
_LETTERS = re.compile(r"(?:[A-Za-z0-9_\-+:/]|\\[.\-$+/])+")
# Prefixes of ordinary words and addresses, and of tokens that other rules match.
_SKIPPED = (
    *(
        "http",
        "curl",
        "amplitude",
        "bitly",
        "canva",
        "cloudinary",
        "clickhouse",
        "couchbase",
        "capella",
        "aiven",
    ),
    *("-----BEGIN", "mongodb", "planetscale", "Endpoint", "incoming", "cli_", "mdb_sa_id_", "ramp_id_"),
    *("CANVA_CLIENT_ID", "AIK_CLIENT_", "ZXlK"),
)
# Rules whose pattern has no prefix that ``token_rule`` recognises.
_ADDED = {
    "airtable-personal-access-token": (["pat"], r"(pat[A-Za-z0-9]{14}\.[a-f0-9]{64})"),
    "vault-service-token-of-old-versions": (["s."], r"(s\.[A-Za-z0-9]{24})"),
    "voyageai-api-key": (["al-", "pa-"], r"((?:al|pa)-[A-Za-z0-9_\-]{43})"),
    "cloudflare-tokens": (["cfut_", "cfat_"], r"(cf[ua]t_[A-Za-z0-9]{40}[a-f0-9]{8})"),
    "resend-api-key": (["re_"], r"(re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24})"),
    "hugging-face-letters": (["hf_"], r"(hf_[A-Za-z]{34})"),
    "canva-client-secret": (["cnvca"], r"(cnvca[A-Za-z0-9_\-]{51})"),
    "jwt-in-base64": (["ZXlK"], r"(ZXlK[A-Za-z0-9+/]{60,}={0,2})"),
}
# Shorter prefixes occur in most texts.
MIN_PREFIX = 3


def main() -> None:
    """Write the file."""
    import importlib.metadata

    from kingfisher_sdk import Rules

    rules = Rules(confidence="medium")
    found: dict[str, tuple[list[str], str]] = dict(_ADDED)
    for row in rules.metadata():
        rule = token_rule(rules.detail(row["id"])["pattern"])
        if rule is not None:
            found[row["id"].partition(".")[2]] = rule
    lines = [HEADER.format(version=importlib.metadata.version("kingfisher-secret-scanner"))]
    for name, (prefixes, pattern) in sorted(found.items()):
        lines.append(f"[{json.dumps(name)}]\nprefixes = {json.dumps(prefixes)}\npattern = '''{pattern}'''\n")
    TARGET.write_text("\n".join(lines))


def token_rule(pattern: str) -> tuple[list[str], str] | None:
    """Return the prefixes of the rule's tokens and a pattern for them, or None for another kind of rule."""
    if "(?:=|>|" in pattern or "\n" in pattern or "'''" in pattern or "curl" in pattern:
        return None
    body = re.sub(r"\(\?:\\\\\?\['\"\\x60\]\|\[\\s;\]\|\\\\\[nr\]\|\$\)$", "", pattern)
    body = re.sub(r"\(\?:(?:\$\|\[\^[^\]]*\]|\[\^[^\]]*\]\|\$)\)$", "", body).removesuffix(r"\b")
    ignores_case = body.startswith("(?i")
    body = re.sub(
        r"^\(\?:\^\|\[\^[^\]]*\]\)", "", re.sub(r"^(?:\(\?i\))?\\b", "(?i)" if ignores_case else "", body)
    )
    prefixes = prefixes_of(body)
    if not prefixes or any(
        len(prefix) < MIN_PREFIX or prefix == "pat" or prefix.startswith(_SKIPPED) for prefix in prefixes
    ):
        return None
    try:
        re2.compile(body)
    except re2.error:
        return None
    # A case-insensitive prefix is searched in its usual spelling.
    return prefixes, body


def prefixes_of(body: str) -> list[str]:
    """Return the literal prefix of each alternative of a pattern."""
    rest: Any = re.sub(r"^\(\?i\)", "", body)
    choice = re.match(r"\(?\(\?:([A-Za-z0-9_|\-]+)\)((?:[A-Za-z0-9_\-]|\\[.\-])*)", rest)
    if choice and "|" in choice[1]:
        return [(one + choice[2]).replace("\\", "") for one in choice[1].split("|")]
    rest = rest.lstrip("(")
    letters = _LETTERS.match(rest)
    if letters is None:
        return []
    text = letters[0]
    # The last character may be optional or repeated.
    if rest[len(text) : len(text) + 1] in ("?", "*", "{"):
        text = text[:-1]
    return [text.replace("\\", "")]


if __name__ == "__main__":
    main()

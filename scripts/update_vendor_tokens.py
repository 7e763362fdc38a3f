"""Writes viewer/redaction/vendor_tokens.toml from the rules that kingfisher-secret-scanner ships.

Run it with that package installed (`pip install kingfisher-secret-scanner`). Forkline does not depend on it.
Only rules whose tokens have a distinctive prefix are used: one pass over a text finds them.
"""

import json
import re
from pathlib import Path
from typing import Any

import re2

TARGET = Path(__file__).resolve().parent.parent / "viewer/redaction/vendor_tokens.toml"
HEADER = """\
# Tokens of vendors: what each begins with, and its pattern for RE2; and names of vendors whose tokens have no
# form of their own, so that only such a label before a random text tells what it is.
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
    "aws-amazon-bedrock-api-key-short-lived": (
        ["bedrock-api-key-"],
        r"(bedrock-api-key-[A-Za-z0-9+/=]{20,})",
    ),
    "buildkite-other-token": (["bkps_"], r"(bkps_[A-Za-z0-9_\-]{20,256})"),
    "adafruit-io-key": (["aio_"], r"(aio_[A-Za-z0-9]{28})"),
    "contentful-management-token": (["CFPAT-"], r"(CFPAT-[A-Za-z0-9_\-]{43})"),
    "crates-io-token": (["cio"], r"(cio[A-Za-z0-9]{32})"),
    "dependency-track-key": (["odt_"], r"(odt_[A-Za-z0-9]{32,40})"),
    "doppler-tokens": (
        ["dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.", "dp.said."],
        r"(dp\.(?:ct|sa|scim|audit|said)\.(?:[a-z0-9_\-]{2,35}\.)?[A-Za-z0-9]{40,44})",
    ),
    "dropbox-short-lived-token": (["sl."], r"(sl\.[A-Za-z0-9_\-=]{60,})"),
    "dynatrace-token": (["dt0"], r"(dt0[A-Za-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64})"),
    "elevenlabs-api-key": (["sk_"], r"(sk_[a-f0-9]{48})"),
    "nuget-api-key": (["oy2"], r"(oy2[a-z0-9]{43})"),
    "pagarme-api-key": (["ak_live_"], r"(ak_live_[A-Za-z0-9]{30})"),
    "typeform-token": (["tfp_"], r"(tfp_[A-Za-z0-9_\-]{40,59})"),
    "voiceflow-key": (["VF."], r"(VF\.(?:DM\.|WS\.)?[a-fA-F0-9]{24}\.[A-Za-z0-9]{16})"),
    "sourcegraph-license-key": (["slk_"], r"(slk_[a-f0-9]{64})"),
    "sonarqube-token": (["sqa_", "sqp_", "squ_"], r"(sq[apu]_[a-z0-9]{40})"),
    "stackhawk-key": (["hawk."], r"(hawk\.[A-Za-z0-9_\-]{20}\.[A-Za-z0-9_\-]{20})"),
    "harness-service-account-token": (
        ["sat.", "pat."],
        r"((?:sat|pat)\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20})",
    ),
    "fly-io-token": (["fo1_", "fm1a_", "fm1r_", "fm2_"], r"((?:fo1|fm1[ar]|fm2)_[A-Za-z0-9+/=,_\-]{40,})"),
    "grafana-cloud-token": (["glc_"], r"(glc_[A-Za-z0-9+/]{32,400}={0,3})"),
    "zoho-token": (["1000."], r"(1000\.[a-f0-9]{32}\.[a-f0-9]{32})"),
    "mapbox-token": (["pk.", "sk.", "tk."], r"([pst]k\.eyJ[A-Za-z0-9_\-]{20,200}\.[A-Za-z0-9_\-]{20,40})"),
    "pubnub-key": (["sec-c-"], r"(sec-c-[A-Za-z0-9\-]{36,100})"),
    "ubidots-key": (["BBFF-"], r"(BBFF-[A-Za-z0-9]{30,40})"),
    "jwt-in-base64": (["ZXlK"], r"(ZXlK[A-Za-z0-9+/]{40,}={0,2})"),
}
# A label and a sign of assignment, as the rules without a prefix begin.
_LABELLED = re.compile(r"\(\?i[:)]\(*\?:([A-Za-z0-9_|.\-\[\]?]+)\).*?\(\?:=\|>\|")
# Labels that have an ordinary meaning, too.
_ORDINARY_LABELS = (
    *("access", "apollo", "checkout", "clerk", "cursor", "hunter", "instantly", "linear", "looker", "monday"),
    *("paradigm", "password", "retell", "secret", "stability", "telegr", "token", "upstage", "x-api-key"),
)
# Labels of gitleaks that these rules lack.
_ADDED_LABELS = ("artifactory", "atlassian", "bintray", "jfrog", "meraki")
MIN_LABEL = 5
# Shorter prefixes occur in most texts.
MIN_PREFIX = 3


def main() -> None:
    """Write the file."""
    import importlib.metadata

    from kingfisher_sdk import Rules

    rules = Rules(confidence="medium")
    found: dict[str, tuple[list[str], str]] = {}
    labels = set(_ADDED_LABELS)
    for row in rules.metadata():
        pattern = rules.detail(row["id"])["pattern"]
        labels |= labels_of(pattern)
        rule = token_rule(pattern)
        if rule is not None:
            found[row["id"].partition(".")[2]] = rule
    found |= _ADDED
    lines = [HEADER.format(version=importlib.metadata.version("kingfisher-secret-scanner"))]
    lines.append(f"labels = {json.dumps(sorted(labels), indent=4)}\n")
    for name, (prefixes, pattern) in sorted(found.items()):
        lines.append(f"[{json.dumps(name)}]\nprefixes = {json.dumps(prefixes)}\npattern = '''{pattern}'''\n")
    TARGET.write_text("\n".join(lines))


def labels_of(pattern: str) -> set[str]:
    """Return the names of vendors that the rule requires before a token, in lower case."""
    labelled = _LABELLED.match(pattern)
    labels = labelled[1].lower().split("|") if labelled else []
    spelled = {label.replace("[_-]?", sign) for label in labels for sign in ("", "_", "-")}
    plain = {label for label in spelled if label.replace("_", "").replace("-", "").isalpha()}
    return {label for label in plain if len(label) >= MIN_LABEL and label not in _ORDINARY_LABELS}


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

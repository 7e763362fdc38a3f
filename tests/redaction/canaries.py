"""Samples of secrets and of other texts, and both ways to redact a checkpoint."""

import json
from typing import Any

from viewer.redaction.values import redact, redacted_json, scan

# Assembled here, so that secret scanners do not report this file.
JWT = ".".join(
    ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"]
)
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7canary7\nq2w3e4r5\n-----END RSA PRIVATE KEY-----"
TOKENS = {
    "openai": "sk-proj-CANARY0123456789abcdef",
    "anthropic": "sk-ant-api03-CANARY0123456789",
    "fake": "sk-fake-ENVSECRET123",
    "aws": "AKIA" + "IOSFODNN7CANARY",
    "github": "ghp_" + "CANARY0123456789abcdefghijkl",
    "github_fine": "github_pat_" + "11CANARY0123456789_abcdefgh",
    "gitlab": "glpat-" + "CANARY0123456789abcd",
    "slack": "xoxb-" + "123456789012-CANARYabcdef",
    "google": "AIza" + "SyCANARY0123456789abcdefghijklmnopq",
    "hugging_face": "hf_" + "CANARYabcdefghijklmnopqrst",
    "stripe": "sk_live_" + "CANARY0123456789abc",
    "groq": "gsk_" + "CANARY0123456789abcdefgh",
    "npm": "npm_" + "CANARY0123456789abcdefghijklmnopqrst",
    "tavily": "tvly-" + "dev-CANARY0123456789ab",
    "nvidia": "nvapi-" + "CANARY0123456789abcdef",
    "xai": "xai-" + "CANARY0123456789abcdef",
    "perplexity": "pplx-" + "CANARY0123456789abcdef",
    "cerebras": "csk-" + "CANARY0123456789abcdef",
    "pinecone": "pcsk_" + "CANARY0123456789abcdef",
    "replicate": "r8_" + "CANARY0123456789abcdef0123456789",
    "notion": "ntn_" + "CANARY0123456789abcdef0123456789",
    "linear": "lin_api_" + "CANARY0123456789abcdef",
    "google_login": "ya29." + "CANARY0123456789abcdef",
    "vault": "hvs." + "CANARY0123456789abcdef",
    "grafana": "glsa_" + "CANARY0123456789abcdef",
    "docker": "dckr_pat_" + "CANARY0123456789abcdef",
    "pypi": "pypi-" + "CANARY0123456789abcdef",
    "stripe_hook": "whsec_" + "CANARY0123456789abcdef",
    "sendgrid": "SG." + "CANARY0123456789abcd.CANARY0123456789abcd",
    "jwt": JWT,
    "pem": PEM,
}
TEXTS = {
    "bearer": ("Authorization: Bearer CANARY0123456789", "CANARY0123456789"),
    "bearer_alone": ("sent bearer CANARY0123456789.", "CANARY0123456789"),
    "basic": ("authorization: Basic Q0FOQVJZOnB3MQ==", "Q0FOQVJZOnB3MQ"),
    "url": ("postgresql://app:CANARYpw1@db.example/x", "CANARYpw1"),
    "url_with_at": ("amqp://guest:CAN@RYpw1@mq", "CAN@RYpw1"),
    "redis": ("redis://:CANARYpw1@cache:6379/0", "CANARYpw1"),
    "assignment": ("export OPENAI_API_KEY=CANARY123", "CANARY123"),
    "query": ("https://x.example/?api_key=CANARY123&page=2", "CANARY123"),
    "header": ("curl -H 'X-API-Key: CANARY-12345'", "CANARY-12345"),
    "python": ("{'password': 'CANARY word', 'a': 1}", "CANARY word"),
    "json_in_text": ('got {"client_secret": "CANARYabc"} back', "CANARYabc"),
    "connection": ("Server=db;User=me;Password=CANARYpw1;", "CANARYpw1"),
    "discord_hook": ("https://discord.com/api/webhooks/123456789012/CANARYabc-d", "CANARYabc-d"),
    "telegram": ("https://api.telegram.org/bot123456789:CANARYabc-d/getMe", "CANARYabc-d"),
    "storage": ("AccountName=x;AccountKey=CANARYabc0==;EndpointSuffix=y", "CANARYabc0"),
    "query_key": ("https://x.example/?key=CANARY0123456789abc&page=2", "CANARY0123456789abc"),
    "signing_key": ('sent {"signing_key": "CANARYabc"} away', "CANARYabc"),
    "short_name": ("DB_PASS=CANARYabc1", "CANARYabc1"),
    "behind_another_name": ("author: password=CANARYabc1", "CANARYabc1"),
    "purpose": ("The password for the database is CANARY-pw1.", "CANARY-pw1"),
    "purpose_of_two": ("the token of my new account was CANARY0123456789ab", "CANARY0123456789ab"),
    "slack_hook": ("https://hooks.slack.com/services/T0/B0/CANARYabc", "CANARYabc"),
}


def words(text: str) -> list[str]:
    return text.split()


FIELDS = words(
    "api_key apiKey API_KEY X-API-Key OPENAI_API_KEY openaiapikey platform_token token "
    "access_token refreshToken password db_password PASSWORD passwd passphrase secret "
    "client_secret clientSecret aws_secret_access_key Authorization cookie Set-Cookie dsn "
    "credentials private_key connection_string jwt pwd auth bearer SECRET_KEY "
    "DB_PASS smtp_pass GITHUB_PAT api_key_old secret_value access_token_v2 "
)
HARMLESS = words(
    "total_tokens prompt_tokens max_tokens token_usage token_cost_process cached_prompt_tokens "
    "first_pass bypass passed file_path pattern key_path "
    "cache_key task_key keys author authority secretary_name token_type description "
)


def both_ways(value: Any) -> list[str]:
    """The redacted JSON, made from the decoded value and from the bytes, in the engine's layouts."""
    made = [json.dumps(redact(value), ensure_ascii=False)]
    for text in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, indent=2),
    ):
        data = text.encode()
        made.append(json.dumps(json.loads(redacted_json(data, scan(data))), ensure_ascii=False))
    return made

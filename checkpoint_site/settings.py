"""Django settings. The environment variables that a deployment may set are read first."""

from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from checkpoint_site.environment import (
    MAX_BYTES,
    InvalidSetting,
    create_folder,
    env_address,
    env_bucket,
    env_choice,
    env_database,
    env_databases,
    env_days,
    env_exact_origins,
    env_file,
    env_flag,
    env_folder,
    env_hosts,
    env_number,
    env_origins,
    env_paths,
    env_provider,
    env_teams,
    env_text,
    env_token,
    env_zone,
    need_each_other,
    port_of,
    private_umask,
    refuse_guessable,
    signing_key,
)
from checkpoint_site.languages import languages_in
from viewer.databases import postgresql_database, sqlite_database
from viewer.validation import MAX_DAYS

ROOT = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (ROOT / "manage.py").is_file()
# In a wheel, the top-level folders of a checkout are inside this package.
ASSETS = ROOT if IS_CHECKOUT else Path(__file__).resolve().parent

# Matches pyproject.toml. The database records the newest version that has used it.
VERSION = "0.2.0"
# The umask for runs. Set before the first file is created: Forkline's own files are private.
USERS_UMASK = private_umask()
DATA_DIR = env_folder(
    "DATA_DIR",
    ROOT / "var" if IS_CHECKOUT else user_data_path("forkline"),
    "The data folder: the database with the stored checkpoints, and the job folders.",
    "`var/` in a checkout; the user's data folder for `forkline` when installed",
)
PORT = env_number("PORT", 8000, "The port of the dashboard.", most=65_535)
LISTEN_ADDRESS = env_address(
    "LISTEN_ADDRESS",
    "127.0.0.1",
    "The IPv4 address on which the dashboard listens, such as `0.0.0.0` in a container. Without"
    " `TLS_CERTIFICATE`, only a proxy may reach it.",
)
# Read when the web server starts (viewer/tls.py). Other commands may lack the right to.
TLS_CERTIFICATE = env_file(
    "TLS_CERTIFICATE",
    "Absolute path of a certificate with its chain, in PEM format. The dashboard is then served over TLS, and"
    " `X-Forwarded-For` is ignored. Both files are loaded again when they change.",
    "none",
    is_checked=False,
)
TLS_KEY = env_file(
    "TLS_KEY",
    "Absolute path of the key of this certificate, in PEM format, without a password, which no other user can"
    " read. If root owns it, its group may.",
    "none",
    is_checked=False,
)
need_each_other("TLS_CERTIFICATE", "TLS_KEY")
DEBUG = env_flag("DEBUG", False, "Django's debug mode. Only for developing Forkline.")
SECRET_KEY = env_text(
    "SECRET_KEY",
    "",
    "Signs sessions and login links. At least 50 random characters if others use the dashboard.",
    "created at the first start, in `secret_key` of the data folder",
)

# Pages and sockets check origins including the port.
ALLOWED_HOSTS = env_hosts(
    "ALLOWED_HOSTS", "127.0.0.1,localhost", "Host names that the server responds to, separated by commas."
)
ALLOWED_ORIGINS = env_origins(
    "ALLOWED_ORIGINS",
    ",".join(f"{'https' if TLS_CERTIFICATE else 'http'}://{host}:{PORT}" for host in ALLOWED_HOSTS),
    "Origins, each with its scheme and port, from which pages, forms and sockets are accepted, separated by"
    " commas. If all of them are https, cookies are sent over TLS only.",
    "`http://HOST:PORT` for each allowed host, or `https://` with `TLS_CERTIFICATE`",
)
# Behind a TLS proxy, requests arrive without TLS, but with the origin that the browser sees.
CSRF_TRUSTED_ORIGINS = ALLOWED_ORIGINS
IS_BEHIND_TLS = all(origin.startswith("https://") for origin in ALLOWED_ORIGINS)
if TLS_CERTIFICATE and not IS_BEHIND_TLS:
    raise InvalidSetting("With TLS_CERTIFICATE, each of ALLOWED_ORIGINS must begin with https://.")
# One year. Browsers then open the host over TLS only.
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if IS_BEHIND_TLS else 0
# The proxy redirects to TLS, or the port has nothing else. Other hosts of the domain are not ours.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W008", "security.W021"]
# Larger requests are refused (middleware/requests.py).
MAX_HEADER_BYTES = 32 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

CHECKPOINT_ROOTS = env_paths(
    "CHECKPOINT_ROOTS",
    Path.home(),
    "Allowed folders: the browser opens locations below these only. Absolute paths, separated by `:`."
    " `up LOCATION` adds the folder around its location.",
    "the home folder",
)
NOTICE_FILE = env_text(
    "NOTICE_FILE",
    "",
    "A file whose first line every page shows, such as of planned maintenance. Nothing is shown while it is"
    " empty or not there.",
)
LOCATION_MAX_FILES = env_number(
    "LOCATION_MAX_FILES", 1_000_000, "Maximum number of files and folders, of any kind, in a location."
)
CHECKPOINT_MAX_BYTES = env_number(
    "CHECKPOINT_MAX_BYTES",
    64 * 1024 * 1024,
    "Maximum size of a checkpoint's file or row, in bytes.",
    "67108864 (64 MiB)",
    most=MAX_BYTES,
)
CHECKPOINT_MAX_DEPTH = env_number(
    "CHECKPOINT_MAX_DEPTH", 200, "Maximum nesting of a checkpoint's JSON.", most=10_000
)
CHECKPOINT_MAX_SECONDS = env_number(
    "CHECKPOINT_MAX_SECONDS", 5, "Maximum processor time for reading one checkpoint, in seconds."
)
POSTGRESQL_LOCATIONS = env_databases(
    "POSTGRESQL_LOCATIONS",
    "PostgreSQL databases that can be added as locations, each as `NAME=CONNECTION` with a connection string"
    " or URI for libpq, separated by `;`. No connection may have a password: use a service file, a password"
    " file or `PGPASSWORD`.",
)
POSTGRESQL_STATEMENT_SECONDS = env_number(
    "POSTGRESQL_STATEMENT_SECONDS",
    10,
    "Maximum time that a PostgreSQL server may take for one statement, in seconds.",
)
# The largest files may need several times their size.
CHECKPOINT_MAX_MEMORY = env_number(
    "CHECKPOINT_MAX_MEMORY",
    448 * 1024 * 1024,
    "Maximum memory of a process that reads checkpoints, in bytes.",
    "469762048 (448 MiB)",
    most=MAX_BYTES,
)
CHECKPOINT_MAX_SHOWN_BYTES = env_number(
    "CHECKPOINT_MAX_SHOWN_BYTES",
    16 * 1024 * 1024,
    "Maximum size of a checkpoint that can be shown and edited, in bytes. Larger ones can be downloaded.",
    "16777216 (16 MiB)",
    most=MAX_BYTES,
)
JOB_MIN_FREE_BYTES = env_number(
    "JOB_MIN_FREE_BYTES",
    16 * 1024 * 1024,
    "Free space on the data folder's disk, in bytes, below which no job starts.",
    "16777216 (16 MiB)",
    least=0,
    most=MAX_BYTES,
)
COPIES_MAX_CHECKPOINTS = env_number(
    "COPIES_MAX_CHECKPOINTS",
    2000,
    "Maximum number of checkpoints of a forked or annotated LangGraph thread that are copied.",
)
COPIES_MAX_BYTES = env_number(
    "COPIES_MAX_BYTES",
    256 * 1024 * 1024,
    "Size of the compressed copies of one thread, in bytes, from which on no more are made.",
    "268435456 (256 MiB)",
    most=MAX_BYTES,
)
CHECKPOINT_UNCHANGED_SECONDS = env_number(
    "CHECKPOINT_UNCHANGED_SECONDS",
    3,
    "A file that cannot be parsed is listed as broken after this many seconds without a change.",
)
LOCATION_POLL_MILLISECONDS = env_number(
    "LOCATION_POLL_MILLISECONDS",
    1000,
    "How often the worker looks for changes of databases, and of folders that report none.",
)
# Programs that replace an engine's own runner, by engine.
JOB_RUNNERS: dict[str, Path] = {}
PREFLIGHT_SECONDS = env_number("PREFLIGHT_SECONDS", 60, "Time limit of a preflight check, in seconds.")
MAX_PREFLIGHTS = env_number("MAX_PREFLIGHTS", 2, "Maximum number of concurrent preflight checks.", most=1_000)
# Modules that a runner, or a prewarmed process, imports instead of the engine's own, by engine.
RUNNER_MODULES: dict[str, str] = {}
PREWARM = env_flag(
    "PREWARM", True, "Whether a prewarmed process, with the engine imported, waits for a project's next run."
)
PREWARM_PROCESSES = env_number(
    "PREWARM_PROCESSES", 2, "Maximum number of projects with a prewarmed process.", most=1_000
)
PREWARM_IDLE_SECONDS = env_number(
    "PREWARM_IDLE_SECONDS", 600, "Seconds without a job after which a prewarmed process ends."
)
CANCEL_GRACE_SECONDS = env_number(
    "CANCEL_GRACE_SECONDS", 5, "Seconds that a cancelled run gets after SIGINT, and again after SIGTERM."
)
SCRATCH_DAYS = env_number(
    "SCRATCH_DAYS",
    30,
    "Days after which the scratch store of a published fork, or of a fork without a checkpoint, is deleted.",
    most=MAX_DAYS,
)
# Younger jobs count towards the limits of a day (viewer/host/jobs/retention.py).
RETENTION_EVENT_DAYS = env_days(
    "RETENTION_EVENT_DAYS",
    "Days after which the worker removes the events of ended jobs, once a day, as `clean --events` does.",
)
RETENTION_JOB_DAYS = env_days(
    "RETENTION_JOB_DAYS",
    "Days after which the worker removes jobs that ended without a checkpoint and did not succeed, once a"
    " day, as `clean --jobs` does.",
)
START_GRACE_SECONDS = env_number(
    "START_GRACE_SECONDS",
    3600,
    "Seconds after its start time within which a scheduled job still starts, if no worker was running.",
)

READ_ONLY_TOOLS = env_text(
    "READ_ONLY_TOOLS",
    "",
    "Tools that change nothing, separated by commas. A fork calls them without asking, unless a person chose"
    " otherwise. `PROJECT:TOOL` is a tool of one project, named by its folder.",
    "none",
).split(",")

AUDIT = env_flag(
    "AUDIT",
    False,
    "Whether an audit trail records who did and opened what, and from where.",
)
AUDIT_FILE = env_file(
    "AUDIT_FILE",
    "Absolute path of a file to which each entry of the audit trail is appended as well, as a line of JSON.",
    "none",
)
if AUDIT_FILE and not AUDIT:
    raise InvalidSetting("AUDIT_FILE needs AUDIT=1.")
RETENTION_AUDIT_DAYS = env_days(
    "RETENTION_AUDIT_DAYS", "Days after which the worker removes entries of the audit trail, once a day."
)

SHARING = env_flag(
    "SHARING",
    True,
    "Whether share links can be made and work. They show one object to somebody without a login.",
)

EMBED_ORIGINS = env_exact_origins(
    "EMBED_ORIGINS",
    "Origins whose pages may show the lineage of a shared run in an `iframe`, each with its scheme and port,"
    " separated by commas. Pages above such a page must be of these origins, too.",
)

# Providers that people log in with (checkpoint_site/accounts.py).
OIDC_URL = env_provider(
    "OIDC_URL",
    "The address of an OpenID Connect provider, such as `https://login.example.org/realms/team`. Its redirect"
    " address for Forkline is `ORIGIN/login/oidc/provider/back/`.",
)
OIDC_CLIENT_ID = env_text(
    "OIDC_CLIENT_ID", "", "The client id that this provider has given Forkline.", "none"
)
OIDC_CLIENT_SECRET = env_text("OIDC_CLIENT_SECRET", "", "The secret of this client.", "none")
need_each_other("OIDC_URL", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET")
OIDC_NAME = env_text("OIDC_NAME", "OpenID Connect", "The name of this provider on the login page.")
OIDC_SCOPES = env_text(
    "OIDC_SCOPES", "openid profile email", "The scopes that are asked for, separated by blanks."
).split()
OIDC_GROUPS_CLAIM = env_text("OIDC_GROUPS_CLAIM", "groups", "The claim that has the groups of a person.")
TEAMS_OF_GROUPS = env_teams(
    "TEAMS_OF_GROUPS",
    "Groups of the provider whose members belong to a team of Forkline, each as `GROUP=TEAM`, separated by"
    " `;`. Read at each login. Only their members, and who has an invitation, get an account.",
)
if TEAMS_OF_GROUPS and not OIDC_URL:
    raise InvalidSetting("TEAMS_OF_GROUPS needs OIDC_URL.")
GITHUB_CLIENT_ID = env_text(
    "GITHUB_CLIENT_ID",
    "",
    "The client id for logging in with GitHub, which redirects to `ORIGIN/login/github/back/`.",
    "none",
)
GITHUB_CLIENT_SECRET = env_text("GITHUB_CLIENT_SECRET", "", "The secret of this client.", "none")
need_each_other("GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET")
GOOGLE_CLIENT_ID = env_text(
    "GOOGLE_CLIENT_ID",
    "",
    "The client id for logging in with Google, which redirects to `ORIGIN/login/google/back/`.",
    "none",
)
GOOGLE_CLIENT_SECRET = env_text("GOOGLE_CLIENT_SECRET", "", "The secret of this client.", "none")
need_each_other("GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET")

METRICS_TOKEN = env_token(
    "METRICS_TOKEN",
    "The token with which Prometheus reads `/metrics`: 16 to 200 letters, digits or other signs, without a"
    " blank. Without it, there is no such page.",
)

FORKLINE_SERVER = env_text(
    "FORKLINE_SERVER",
    "",
    "The address of a server elsewhere, such as `https://forkline.example`, to which commands of the terminal"
    " are sent, as with `forkline --server`.",
    "none",
)
FORKLINE_TOKEN = env_token("FORKLINE_TOKEN", "The API token with which commands are sent to that server.")
FORKLINE_TOKEN_FILE = env_text(
    "FORKLINE_TOKEN_FILE", "", "A file with that token, which only its owner can read.", "none"
)

# The library reads these variables and others of their kind itself (checkpoint_site/middleware/traces.py).
COLLECTOR = env_text(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "",
    "An OpenTelemetry collector to which the web server sends a span of each request, as JSON over HTTP, such"
    " as `http://localhost:4318`. The other standard variables `OTEL_…` name headers, the service, and which"
    " requests are sampled.",
    "none",
)
TRACES_COLLECTOR = env_text(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "", "The whole address for spans, instead of the one above.", "none"
)
SDK_DISABLED = env_flag("OTEL_SDK_DISABLED", False, "Whether no span is sent although there is a collector.")
IS_TRACED = bool(COLLECTOR or TRACES_COLLECTOR) and not SDK_DISABLED

PRICES_FILE = env_file(
    "PRICES_FILE",
    "Absolute path of a TOML file with the prices of models, in US dollars for a million tokens. They"
    " override the built-in prices.",
    "none",
)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.usersessions",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "viewer",
]

MIDDLEWARE = [
    "checkpoint_site.middleware.responses.share_memory",
    "checkpoint_site.logs.log_request",
    "checkpoint_site.middleware.requests.allowed_hosts_only",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "checkpoint_site.middleware.traces.trace_requests",
    "checkpoint_site.middleware.responses.no_store",
    "csp.middleware.CSPMiddleware",
    "checkpoint_site.middleware.responses.DataFolderUnavailable",
    "checkpoint_site.middleware.responses.embedded_without_cookies",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "checkpoint_site.middleware.responses.json_errors",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "checkpoint_site.middleware.responses.TokenUser",
    "checkpoint_site.middleware.audit.Audit",
    "checkpoint_site.middleware.responses.ReaderLanguage",
    "checkpoint_site.middleware.responses.LoginGate",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "checkpoint_site.middleware.responses.method_not_allowed",
    "checkpoint_site.middleware.responses.HostUnavailable",
]

ROOT_URLCONF = "checkpoint_site.urls"
ASGI_APPLICATION = "checkpoint_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ASSETS / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "viewer.records.permissions.permissions_context",
                "viewer.models.accounts.settings_context",
                "viewer.web.views.server.notice_context",
            ],
        },
    }
]

DATABASE = env_database(
    "DATABASE_URL",
    "A PostgreSQL database for Forkline's own rows, instead of a SQLite file in the data folder:"
    " `postgresql://USER:PASSWORD@HOST/NAME`, or a connection string for libpq.",
    "SQLite",
)
DATABASE_DIRECT = env_database(
    "DATABASE_DIRECT_URL",
    "The same database past PgBouncer or another pooler, for locks and notifications.",
    "`DATABASE_URL`",
)
if DATABASE_DIRECT and not DATABASE:
    raise InvalidSetting("DATABASE_DIRECT_URL needs DATABASE_URL.")
DATABASES = {
    "default": postgresql_database(DATABASE, has_pooler=bool(DATABASE_DIRECT))
    if DATABASE
    else sqlite_database(DATA_DIR)
}
DATABASE_DIRECT = DATABASE_DIRECT or DATABASE
BUCKET_URL = env_bucket(
    "BUCKET_URL",
    "An S3-compatible bucket for large stored copies, instead of the database: `s3://NAME/PREFIX`. The usual"
    " variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` and `AWS_ENDPOINT_URL` name its"
    " credentials and server. All machines need the same one, and no other database may use it.",
)
BUCKET_MIN_BYTES = env_number(
    "BUCKET_MIN_BYTES",
    64 * 1024,
    "Size in bytes from which compressed stored copies are written to the bucket.",
    "65536 (64 KiB)",
    most=MAX_BYTES,
)
# Whether other machines may use the database. One of SQLite is in the data folder of this machine.
IS_DATABASE_SHARED = bool(DATABASE)
if IS_DATABASE_SHARED:
    # The queue of requests to other hosts (viewer/host/remote.py).
    INSTALLED_APPS.append("procrastinate.contrib.django")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The function that answers requests to the host (viewer/host_requests.py).
HOST = "viewer.host.routing.answer"

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "sesame.backends.ModelBackend",
]
# A code of an authenticator app works once, at whichever web server.
CACHES = {"default": {"BACKEND": "checkpoint_site.middleware.throttle.SharedCache"}}
# How people log in (checkpoint_site/accounts.py). Attempts are counted by middleware/throttle.py instead.
ACCOUNT_ADAPTER = "checkpoint_site.accounts.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = False
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if IS_BEHIND_TLS else "http"
SOCIALACCOUNT_ADAPTER = "checkpoint_site.accounts.ProviderAdapter"
SOCIALACCOUNT_REAUTHENTICATION_REQUIRED = True
OIDC_CLIENT = {"provider_id": "provider", "name": OIDC_NAME, "client_id": OIDC_CLIENT_ID}
OIDC_CLIENT |= {"secret": OIDC_CLIENT_SECRET}
OIDC_SETTINGS = {"server_url": OIDC_URL, "scope": OIDC_SCOPES, "oauth_pkce_enabled": True}
GITHUB_CLIENT = {"client_id": GITHUB_CLIENT_ID, "secret": GITHUB_CLIENT_SECRET}
GOOGLE_CLIENT = {"client_id": GOOGLE_CLIENT_ID, "secret": GOOGLE_CLIENT_SECRET}
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {
    "openid_connect": {"APPS": [{**OIDC_CLIENT, "settings": OIDC_SETTINGS}] if OIDC_URL else []},
    "github": {"APPS": [GITHUB_CLIENT] if GITHUB_CLIENT_ID else [], "OAUTH_PKCE_ENABLED": True},
    "google": {"APPS": [GOOGLE_CLIENT] if GOOGLE_CLIENT_ID else [], "OAUTH_PKCE_ENABLED": True},
}
# They import much, so only those that are used are installed.
INSTALLED_APPS += [
    f"allauth.socialaccount.providers.{name}" for name, one in SOCIALACCOUNT_PROVIDERS.items() if one["APPS"]
]
MFA_ADAPTER = "checkpoint_site.accounts.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
# Browsers offer security keys to hosts without TLS on this machine only.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not IS_BEHIND_TLS
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
SESAME_ONE_TIME = True
SESAME_MAX_AGE = PASSWORD_RESET_TIMEOUT = 24 * 60 * 60
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_BEHIND_TLS
# Browsers send cookies to all ports of a host: two dashboards on one host must not log each other out. Web
# servers behind one proxy, whose own ports may differ, share the cookies of the port that the browser sees.
BROWSER_PORT = port_of(ALLOWED_ORIGINS[0])
SESSION_COOKIE_NAME = f"forkline_session_{BROWSER_PORT}"
CSRF_COOKIE_NAME = f"forkline_csrf_{BROWSER_PORT}"
CSRF_COOKIE_SAMESITE = "Strict"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        **{name: ["'none'"] for name in ("default-src", "base-uri", "frame-ancestors")},
        **{name: ["'self'"] for name in ("script-src", "style-src", "img-src", "font-src")},
        **{name: ["'self'"] for name in ("connect-src", "form-action")},
    }
}

STATIC_URL = "static/"
STATICFILES_DIRS = [ASSETS / "static"]
# Static files are served from where they are installed, without collectstatic.
WHITENOISE_USE_FINDERS = True

LANGUAGE_CODE = "en"
LOCALE_PATHS = [ROOT / "viewer" / "locale"]
LANGUAGES = languages_in(LOCALE_PATHS[0])
FORMAT_MODULE_PATH = "checkpoint_site.languages"
USE_I18N = True
TIME_ZONE = env_zone(
    "TIME_ZONE", "UTC", "Time zone of the times on pages and in forms. Daily limits reset at its midnight."
)
USE_TZ = True

EMAIL_HOST = env_text(
    "EMAIL_HOST",
    "",
    "The mail server that notifications and links for a new password are sent with. Without one, nobody gets"
    " mail.",
    "off",
)
EMAIL_PORT = env_number("EMAIL_PORT", 587, "Port of the mail server.", most=65_535)
EMAIL_USE_TLS = env_flag("EMAIL_USE_TLS", True, "Whether mail is sent over TLS, begun with STARTTLS.")
EMAIL_HOST_USER = env_text("EMAIL_HOST_USER", "", "The account at the mail server.")
EMAIL_HOST_PASSWORD = env_text("EMAIL_HOST_PASSWORD", "", "The password of this account.")
DEFAULT_FROM_EMAIL = env_text("EMAIL_FROM", "forkline@localhost", "The sender of mail.")
EMAIL_TIMEOUT = 10
WEBHOOKS_TO_PRIVATE_ADDRESSES = env_flag(
    "WEBHOOKS_TO_PRIVATE_ADDRESSES",
    False,
    "Whether webhooks may lead to this machine and to private networks, also without TLS.",
)

LOG_FORMAT = env_choice(
    "LOG_FORMAT", "plain", ("plain", "json"), "`plain`, or `json` for one JSON object per line."
)
LOG_REQUESTS = env_flag("LOG_REQUESTS", False, "Whether each request is logged, without its query string.")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    # An error message may quote what was read: both formatters redact secrets.
    "formatters": {
        "plain": {"()": "checkpoint_site.logs.PlainFormatter"},
        "json": {"()": "checkpoint_site.logs.JsonFormatter"},
    },
    "filters": {
        "refusals": {"()": "checkpoint_site.logs.OneLineRefusals"},
        "failures": {"()": "checkpoint_site.logs.BriefFailures"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["refusals", "failures"],
        }
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "forkline.jobs": {"level": "INFO"},
        # viewer/host/remote.py reports its failures in one line.
        "procrastinate": {"level": "CRITICAL"},
        "psycopg.pool": {"level": "CRITICAL"},
        "forkline.requests": {"level": "INFO" if LOG_REQUESTS else "WARNING"},
    },
}
if AUDIT_FILE:
    writer = {"class": "checkpoint_site.logs.AuditFile", "filename": AUDIT_FILE, "delay": True}
    LOGGING["handlers"]["audit"] = writer
    LOGGING["loggers"]["forkline.audit"] = {"handlers": ["audit"], "level": "INFO", "propagate": False}

if SECRET_KEY and (DATABASE or IS_BEHIND_TLS or not LISTEN_ADDRESS.startswith("127.")):
    refuse_guessable(SECRET_KEY)
# All variables are valid by now: an invalid one creates nothing.
DATA_DIR_CREATED = create_folder("DATA_DIR", DATA_DIR)
SECRET_KEY = SECRET_KEY or signing_key(DATA_DIR, DATA_DIR_CREATED)

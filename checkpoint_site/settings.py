"""Django settings. What a deployment may change is read from the environment, on top."""

from pathlib import Path

from platformdirs import user_data_path

from checkpoint_site.environment import (
    env_choice,
    env_flag,
    env_folder,
    env_number,
    env_paths,
    env_text,
    env_zone,
    kept_secret,
    private_umask,
)

ROOT = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (ROOT / "manage.py").is_file()
# A wheel has the top-level folders of a checkout inside this package.
ASSETS = ROOT if IS_CHECKOUT else Path(__file__).resolve().parent

# The same as in pyproject.toml. The database holds the newest one that has used it.
VERSION = "0.1.0"
# The umask of runs. Before the first file: ours are for their owner alone, whatever starts this process.
USERS_UMASK = private_umask()
DATA_DIR = env_folder(
    "DATA_DIR",
    ROOT / "var" if IS_CHECKOUT else user_data_path("forkline"),
    "The data folder: the database, with the stored checkpoints, and the folders of jobs.",
    "`var/` in a checkout; the user's data folder for `forkline` when installed",
)
PORT = env_number("PORT", 8000, "The port of the dashboard on 127.0.0.1.")
DEBUG = env_flag("DEBUG", False, "Django's debug mode. Only for work on Forkline.")
SECRET_KEY = env_text(
    "SECRET_KEY",
    "",
    "Signs sessions and login links.",
    "created at the first start, in `secret_key` of the data folder",
) or kept_secret(DATA_DIR)

# Origins are checked with their port, for pages and sockets alike.
ALLOWED_HOSTS = env_text(
    "ALLOWED_HOSTS", "127.0.0.1,localhost", "Host names that are answered, separated by commas."
).split(",")
ALLOWED_ORIGINS = env_text(
    "ALLOWED_ORIGINS",
    ",".join(f"http://{host}:{PORT}" for host in ALLOWED_HOSTS),
    "Origins, each with its scheme and port, from which pages, forms and sockets are accepted, separated by"
    " commas. If all of them are https, cookies are sent over TLS only.",
    "`http://HOST:PORT` for each allowed host",
).split(",")
# A proxy that speaks TLS hands requests on without it: their origin is what the browser was told.
CSRF_TRUSTED_ORIGINS = ALLOWED_ORIGINS
IS_BEHIND_TLS = all(origin.startswith("https://") for origin in ALLOWED_ORIGINS)

CHECKPOINT_ROOTS = env_paths(
    "CHECKPOINT_ROOTS",
    Path.home(),
    "Allowed folders: the browser opens locations below these only. Absolute paths, separated by `:`."
    " `up LOCATION` adds the folder around its location.",
    "the home folder",
)
CHECKPOINT_MOST_BYTES = env_number(
    "CHECKPOINT_MOST_BYTES",
    64 * 1024 * 1024,
    "Maximum size of a checkpoint's file or row, in bytes.",
    "67108864 (64 MiB)",
)
CHECKPOINT_MOST_DEPTH = env_number("CHECKPOINT_MOST_DEPTH", 200, "Maximum nesting of a checkpoint's JSON.")
CHECKPOINT_MOST_SECONDS = env_number(
    "CHECKPOINT_MOST_SECONDS", 5, "Maximum processor time for reading one checkpoint, in seconds."
)
# The largest files may need several times their size.
CHECKPOINT_MOST_MEMORY = env_number(
    "CHECKPOINT_MOST_MEMORY",
    448 * 1024 * 1024,
    "Maximum memory of a process that reads checkpoints, in bytes.",
    "469762048 (448 MiB)",
)
CHECKPOINT_MOST_SHOWN_BYTES = env_number(
    "CHECKPOINT_MOST_SHOWN_BYTES",
    16 * 1024 * 1024,
    "Maximum size of a checkpoint that is shown and edited, in bytes. A larger one can be downloaded.",
    "16777216 (16 MiB)",
)
CHECKPOINT_SETTLED_SECONDS = env_number(
    "CHECKPOINT_SETTLED_SECONDS",
    3,
    "A file that does not parse is listed as broken once it has not changed for this many seconds.",
)
LOCATION_WATCH_MILLISECONDS = env_number(
    "LOCATION_WATCH_MILLISECONDS", 1000, "How often an open page checks its location for new checkpoints."
)
# The program that runs a job of each engine, started in the interpreter of the job's project.
JOB_RUNNERS = {"crewai": ROOT / "viewer" / "runners" / "crewai_runner.py"}
LOOK_SECONDS = env_number("LOOK_SECONDS", 60, "Time limit of a preflight check, in seconds.")
LOOKS_AT_ONCE = env_number("LOOKS_AT_ONCE", 2, "Maximum number of preflight checks at once.")
# What a process that waits for jobs of each engine imports ahead, of what stands beside its runner.
JOB_PRELOADS = {"crewai": "forkline_crewai.prewarm"}
WARM_START = env_flag(
    "WARM_START", True, "Whether a process with CrewAI imported waits for the next run of a project."
)
WARM_PROCESSES = env_number("WARM_PROCESSES", 2, "Maximum number of projects with such a process.")
WARM_IDLE_SECONDS = env_number(
    "WARM_IDLE_SECONDS", 600, "Seconds without a job after which such a process ends."
)
CANCEL_GRACE_SECONDS = env_number(
    "CANCEL_GRACE_SECONDS", 5, "Seconds that a cancelled run gets after SIGINT, and again after SIGTERM."
)
START_GRACE_SECONDS = env_number(
    "START_GRACE_SECONDS",
    3600,
    "Seconds after its start time within which a scheduled job still starts, if no worker was running.",
)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "django_tasks",
    "django_tasks_db",
    "viewer",
]

MIDDLEWARE = [
    "checkpoint_site.logs.logged",
    "checkpoint_site.hosts.only_served",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "checkpoint_site.no_store.never_stored",
    "csp.middleware.CSPMiddleware",
    "checkpoint_site.unavailable.Unavailable",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "checkpoint_site.login_gate.WayIn",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "checkpoint_site.method_not_allowed.explained",
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
                "viewer.access.permissions.told_to_pages",
            ],
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "checkpoint_site.sqlite_once",
        "NAME": DATA_DIR / "forkline.sqlite3",
        # Opening one takes as long as several queries, and each change wakes every socket that shows it.
        # Each thread has one: pages.PAGE_THREADS and server.SOCKET_THREADS bound them.
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # Stored copies have about ten kilobytes: in large pages, four times fewer of them are written.
            "init_command": (
                "PRAGMA page_size=16384; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                " PRAGMA cache_size=-4000;"
                # What was deleted, such as what a person typed for a run, is overwritten.
                " PRAGMA secure_delete=ON;"
            ),
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The layer only wakes who listens; the rows hold what happened.
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "sesame.backends.ModelBackend",
]
SESAME_ONE_TIME = True
SESAME_MAX_AGE = 24 * 60 * 60
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "locations"
LOGOUT_REDIRECT_URL = "login"

SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_BEHIND_TLS
# Cookies know no ports: two dashboards on one host must not log each other out.
SESSION_COOKIE_NAME = f"forkline_session_{PORT}"
CSRF_COOKIE_NAME = f"forkline_csrf_{PORT}"
CSRF_COOKIE_SAMESITE = "Strict"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

STATIC_URL = "static/"
STATICFILES_DIRS = [ASSETS / "static"]
# Served from where they are installed: nothing to collect before the first page.
WHITENOISE_USE_FINDERS = True

LANGUAGE_CODE = "en"
USE_I18N = True
TIME_ZONE = env_zone(
    "TIME_ZONE", "UTC", "Time zone of the times that are shown and typed. Daily limits reset at its midnight."
)
USE_TZ = True

LOG_FORMAT = env_choice(
    "LOG_FORMAT", "plain", ("plain", "json"), "`plain`, or `json` for one JSON object a line."
)
LOG_REQUESTS = env_flag("LOG_REQUESTS", False, "Whether each request is logged, without its query.")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    # An error's text may quote what was read: both leave out what looks like a secret.
    "formatters": {
        "plain": {"()": "checkpoint_site.logs.PlainFormatter"},
        "json": {"()": "checkpoint_site.logs.JsonFormatter"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "forkline.jobs": {"level": "INFO"},
        "forkline.requests": {"level": "INFO" if LOG_REQUESTS else "WARNING"},
    },
}

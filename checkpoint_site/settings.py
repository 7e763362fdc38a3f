"""Django settings. What a deployment may change is read from the environment, on top."""

import os
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
# Everything that is ours: database, stored copies, jobs.
DATA_DIR = env_folder("DATA_DIR", ROOT / "var" if IS_CHECKOUT else user_data_path("forkline"))
PORT = env_number("PORT", 8000)
DEBUG = env_flag("DEBUG", False)
SECRET_KEY = os.environ.get("SECRET_KEY") or kept_secret(DATA_DIR)

# Hosts that may be asked for. Origins are checked with their port, for pages and sockets alike.
ALLOWED_HOSTS = env_text("ALLOWED_HOSTS", "127.0.0.1,localhost").split(",")
ALLOWED_ORIGINS = env_text(
    "ALLOWED_ORIGINS", ",".join(f"http://{host}:{PORT}" for host in ALLOWED_HOSTS)
).split(",")
# A proxy that speaks TLS hands requests on without it: their origin is what the browser was told.
CSRF_TRUSTED_ORIGINS = ALLOWED_ORIGINS
IS_BEHIND_TLS = all(origin.startswith("https://") for origin in ALLOWED_ORIGINS)

# Folders below which a person may open locations in the browser.
CHECKPOINT_ROOTS = env_paths("CHECKPOINT_ROOTS") or [Path.home().resolve()]
# Bounds for each file or row that is read.
CHECKPOINT_MOST_BYTES = env_number("CHECKPOINT_MOST_BYTES", 64 * 1024 * 1024)
CHECKPOINT_MOST_DEPTH = env_number("CHECKPOINT_MOST_DEPTH", 200)
CHECKPOINT_MOST_SECONDS = env_number("CHECKPOINT_MOST_SECONDS", 5)
# What a process that reads may have of memory in all. The largest files may need several times their size.
CHECKPOINT_MOST_MEMORY = env_number("CHECKPOINT_MOST_MEMORY", 448 * 1024 * 1024)
# A larger checkpoint is kept and can be downloaded, but is neither shown nor edited.
CHECKPOINT_MOST_SHOWN_BYTES = env_number("CHECKPOINT_MOST_SHOWN_BYTES", 16 * 1024 * 1024)
# A file that does not parse counts as being written until it has not changed for this long.
CHECKPOINT_SETTLED_SECONDS = env_number("CHECKPOINT_SETTLED_SECONDS", 3)
# How often an open location is looked at for new checkpoints.
LOCATION_WATCH_MILLISECONDS = env_number("LOCATION_WATCH_MILLISECONDS", 1000)
# The program that runs a job of each engine, started in the interpreter of the job's project.
JOB_RUNNERS = {"crewai": ROOT / "viewer" / "engines" / "crewai_runner.py"}
# How long a look before a run may take, and how many are made at once.
LOOK_SECONDS = env_number("LOOK_SECONDS", 60)
LOOKS_AT_ONCE = env_number("LOOKS_AT_ONCE", 2)
# What a process that waits for jobs of each engine imports ahead, of what stands beside its runner.
JOB_PRELOADS = {"crewai": "forkline_crewai.preloading"}
# Whether such processes wait at all, for how many projects at once, and for how long without a job.
WARM_START = env_flag("WARM_START", True)
WARM_PROCESSES = env_number("WARM_PROCESSES", 2)
WARM_IDLE_SECONDS = env_number("WARM_IDLE_SECONDS", 600)
# How long a cancelled run gets after SIGINT, and again after SIGTERM.
CANCEL_GRACE_SECONDS = env_number("CANCEL_GRACE_SECONDS", 5)
# A job whose time to start passed while no worker was up starts late, but no later than this.
START_GRACE_SECONDS = env_number("START_GRACE_SECONDS", 3600)

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
    "checkpoint_site.not_stored.never_stored",
    "csp.middleware.CSPMiddleware",
    "checkpoint_site.unavailable.Unavailable",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "checkpoint_site.way_in.WayIn",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "checkpoint_site.only_sent.explained",
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
                "viewer.rights.told_to_pages",
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
# Times are shown and typed in it, and its midnight begins the day that limits count.
TIME_ZONE = env_zone("TIME_ZONE", "UTC")
USE_TZ = True

# "plain" for people, "json" for programs: one object a line.
LOG_FORMAT = env_choice("LOG_FORMAT", "plain", ("plain", "json"))
LOG_REQUESTS = env_flag("LOG_REQUESTS", False)
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

"""Which package may import which, as ``tests/test_imports.py`` checks."""

# The packages that ``django`` includes in the table.
DJANGO = {"django", "channels", "asgiref", "django_htmx", "csp", "sesame"}

# What each package or module may import besides itself and the standard library. The longest match counts.
TABLE = """
viewer/redaction: ahocorasick_rs msgspec re2
viewer/stores: apsw msgspec psycopg viewer.engines viewer.messages.message viewer.redaction
    viewer.sqlite_pragmas zstandard
viewer/messages/message.py: viewer.messages.catalog
viewer/messages/labels.py: django viewer.engines
viewer/messages/catalog: viewer.messages.marking
viewer/messages/marking.py:
viewer/messages/translation.py: django viewer.messages.message
viewer/lineage: viewer.messages.message
viewer/lineage/drawing.py: viewer.lineage viewer.messages.message
viewer/lineage/run_graph.py: graphviz viewer.lineage.drawing viewer.lineage.tree
viewer/lineage/unit_graph.py: graphviz viewer.lineage.drawing
viewer/projects: dotenv viewer.engines viewer.redaction viewer.validation
viewer/engines: jsonschema re2 referencing viewer.messages.marking viewer.messages.message
    viewer.stores.model_calls viewer.stores.protocol
viewer/engines/crewai: msgspec viewer.engines viewer.messages.marking viewer.messages.message
    viewer.redaction viewer.stores yaml
viewer/engines/langgraph: apsw msgspec ormsgpack xxhash viewer.engines viewer.messages.marking
    viewer.messages.message viewer.redaction viewer.stores
viewer/formats: django
viewer/comparison/diff: diff_match_patch
viewer/comparison: django viewer.annotations viewer.engines viewer.formats viewer.importing
    viewer.messages.message viewer.models viewer.presentation.run viewer.prices viewer.stores.model_calls
viewer/reproduction: viewer.engines viewer.launching viewer.models
viewer/presentation/run: django viewer.annotations viewer.engines viewer.formats viewer.importing
    viewer.lineage viewer.models
viewer/presentation/export: django graphviz viewer.comparison viewer.engines viewer.importing
    viewer.lineage.drawing viewer.lineage.run_graph
    viewer.models viewer.presentation.run viewer.prices
viewer/presentation/spans: django viewer.engines viewer.importing viewer.models viewer.presentation.run
    viewer.prices
viewer/presentation/launch: django viewer.comparison.diff viewer.engines viewer.formats viewer.forms
    viewer.importing viewer.launching viewer.lineage viewer.models viewer.presentation viewer.redaction
viewer/presentation/jobs: django viewer.data_folder viewer.engines viewer.formats viewer.jobs
    viewer.messages.message viewer.messages.translation viewer.models viewer.presentation
viewer/presentation: django markdown_it nh3 viewer.comparison viewer.formats viewer.jobs.execution
    viewer.models viewer.pruning
viewer/launching: django viewer.data_folder viewer.engines viewer.importing viewer.jobs viewer.lineage
    viewer.messages.labels viewer.messages.message viewer.messages.translation viewer.models
    viewer.redaction viewer.validation
viewer/forms: django viewer.engines viewer.jobs.request viewer.launching viewer.messages.translation
    viewer.models viewer.presentation.run viewer.projects viewer.pruning viewer.redaction viewer.search
    viewer.seen viewer.sharing.links viewer.stores.postgresql.address viewer.validation
viewer/jobs/queue: django viewer.changes viewer.data_folder viewer.jobs viewer.models viewer.retention
viewer/jobs/queue/tasks.py: django_tasks django_tasks_db viewer.jobs.execution viewer.models
viewer/jobs/execution: django psutil viewer.data_folder viewer.engines viewer.importing viewer.jobs
    viewer.messages.message viewer.models viewer.prices viewer.projects viewer.redaction
viewer/jobs/limits: django viewer.engines viewer.jobs.event_values viewer.jobs.spool viewer.jobs.storage
    viewer.models
viewer/jobs/preflight: django viewer.engines viewer.importing viewer.jobs viewer.locks
    viewer.messages.message viewer.models viewer.redaction
viewer/jobs/prewarm: django psutil viewer.jobs viewer.locks viewer.models
viewer/jobs/human_input: django viewer.engines viewer.jobs.event_values viewer.jobs.execution
    viewer.jobs.spool viewer.jobs.storage viewer.models
viewer/jobs/request.py:
viewer/jobs/spool.py:
viewer/jobs/event_values.py:
viewer/jobs/storage.py: viewer.jobs.local_storage viewer.jobs.spool viewer.models
viewer/jobs/local_storage.py: django viewer.jobs.spool viewer.locks viewer.models
viewer/jobs/workers.py: viewer.locks
viewer/jobs:
viewer/locks: django
viewer/changes: django viewer.sqlite_pragmas
viewer/sqlite_pragmas.py:
viewer/runners/forkline_guard: forkline_guard
viewer/runners/forkline_prewarm: forkline_prewarm
viewer/runners/prewarm_runner.py: forkline_prewarm
viewer/runners/forkline_runner: forkline_guard forkline_runner viewer.jobs.request viewer.jobs.spool
viewer/runners/forkline_crewai: crewai forkline_crewai forkline_guard forkline_runner pydantic
    viewer.jobs.request
viewer/runners/crewai_runner.py: forkline_crewai forkline_runner
viewer/runners/forkline_langgraph: forkline_guard forkline_langgraph forkline_runner langchain_core
    langgraph ormsgpack psycopg viewer.jobs.request
viewer/runners/langgraph_runner.py: forkline_langgraph forkline_runner
viewer/prices: django genai_prices viewer.models viewer.stores.model_calls viewer.validation
viewer/retention: django viewer.data_folder viewer.jobs.storage viewer.locks viewer.models
viewer/pruning: django viewer.data_folder.write_ahead_log viewer.importing viewer.messages.message
    viewer.models viewer.redaction.marker viewer.search viewer.stores
viewer/models: django viewer.messages.message
viewer/annotations: django viewer.importing viewer.models viewer.redaction viewer.seen
viewer/presentation/run_list: django viewer.annotations viewer.models viewer.presentation
viewer/importing: django msgspec viewer.changes viewer.engines viewer.formats viewer.lineage viewer.locks
    viewer.messages.message viewer.messages.translation viewer.models viewer.prices viewer.projects
    viewer.redaction viewer.stores zstandard
viewer/search: django viewer.changes viewer.engines viewer.importing viewer.locks viewer.messages.message
    viewer.models viewer.validation
viewer/cli: django viewer.access viewer.annotations viewer.comparison viewer.data_folder viewer.engines
    viewer.formats viewer.importing viewer.jobs viewer.launching viewer.messages.labels
    viewer.messages.message viewer.messages.translation viewer.models viewer.presentation.deletions
    viewer.presentation.export viewer.presentation.jobs viewer.presentation.run.branches
    viewer.presentation.run.listed viewer.presentation.run.units.graph viewer.prices viewer.projects
    viewer.pruning viewer.retention viewer.safe_lines viewer.search viewer.sharing
    viewer.stores.postgresql.address viewer.validation
viewer/safe_lines.py:
viewer/seen.py:
viewer/validation.py: viewer.messages.message viewer.safe_lines
viewer/management: django viewer.access viewer.cli viewer.data_folder viewer.formats viewer.importing
    viewer.jobs.execution viewer.jobs.queue viewer.messages.message viewer.messages.translation
    viewer.models viewer.search viewer.stores.postgresql.address viewer.supervision viewer.validation
viewer/supervision: django psutil viewer.validation
viewer/live: django msgspec viewer.access viewer.changes viewer.engines viewer.formats viewer.importing
    viewer.jobs viewer.models viewer.presentation.jobs viewer.sharing
viewer/consumers: django viewer.access viewer.live viewer.models viewer.sharing
viewer/data_folder: django viewer.locks viewer.messages.message viewer.models viewer.sqlite_pragmas
viewer/access: django viewer.validation
viewer/apps.py: django
viewer/routing.py: django viewer.consumers
viewer/urls.py: django viewer.views
viewer/templatetags: django viewer.comparison.diff viewer.formats viewer.jobs.human_input
    viewer.messages.labels viewer.messages.translation viewer.models viewer.presentation
viewer/sharing: django graphviz viewer.access viewer.comparison viewer.importing viewer.lineage
    viewer.models viewer.search
viewer/views: django viewer.access viewer.annotations viewer.comparison viewer.data_folder viewer.engines
    viewer.formats viewer.forms viewer.importing viewer.jobs.execution viewer.jobs.human_input
    viewer.jobs.limits viewer.jobs.prewarm viewer.launching viewer.lineage.drawing viewer.live.home_feed
    viewer.messages.translation viewer.models viewer.presentation viewer.projects viewer.pruning
    viewer.reproduction viewer.retention viewer.search viewer.seen viewer.sharing
"""


def parsed(table: str) -> dict[str, set[str]]:
    """Return what each package of the table may import. Indented lines continue the line before."""
    lines = table.replace("\n    ", " ").strip().splitlines()
    named = {package: set(names.split()) for package, _, names in (line.partition(":") for line in lines)}
    return {package: names | DJANGO if "django" in names else names for package, names in named.items()}


IMPORTS = parsed(TABLE)

"""Every address of the viewer, grouped by screen."""

from django.urls import path

from viewer.views import (
    checkpoints,
    forks,
    inbox,
    jobs,
    locations,
    new_runs,
    preflight,
    projects,
    runs,
    sweeps,
)

location_urls = [
    path("", locations.index, name="locations"),
    path("locations/add/", locations.add, name="location-add"),
    path("locations/<uuid:uid>/", locations.show, name="location"),
    path("locations/<uuid:uid>/refresh/", locations.refresh, name="location-refresh"),
    path("locations/<uuid:uid>/replaced/", locations.accept_replacement, name="location-replaced"),
    path("locations/<uuid:uid>/forget/", locations.forget, name="location-forget"),
    path("locations/<uuid:uid>/project/", projects.edit, name="project"),
    path("locations/<uuid:uid>/project/limits/", projects.limits, name="project-limits"),
    # ?entry_point=<module:name>&again=<run> is what it begins with.
    path("locations/<uuid:uid>/run/", new_runs.new, name="new-run"),
    path("locations/<uuid:uid>/run/plan/", new_runs.plan, name="new-run-plan"),
]

run_urls = [
    # ?at=<checkpoint id>&tab=<tab> is the selection.
    path("runs/<uuid:uid>/", runs.show, name="run"),
    path("runs/<uuid:uid>/rows/", runs.rows, name="run-rows"),
    path("runs/<uuid:uid>/again/", new_runs.again, name="run-again"),
]

checkpoint_urls = [
    path("checkpoints/<int:pk>/", checkpoints.show, name="checkpoint"),
    path("checkpoints/<int:pk>/raw/", checkpoints.raw, name="checkpoint-raw"),
    path("checkpoints/<int:pk>/fork/", forks.fork, name="fork"),
    path("checkpoints/<int:pk>/fork/plan/", forks.plan, name="fork-plan"),
    path("checkpoints/<int:pk>/resume/", forks.resume, name="resume"),
    path("checkpoints/<int:pk>/resume/plan/", forks.plan, {"kind": "resume"}, name="resume-plan"),
    path("looks/<uuid:pk>/", preflight.show, name="look"),
    path("checkpoints/<int:pk>/variations/", sweeps.vary, name="vary"),
    path("checkpoints/<int:pk>/variations/plan/", sweeps.plan, name="vary-plan"),
]

job_urls = [
    path("jobs/", jobs.index, name="jobs"),
    path("jobs/waiting/", jobs.waiting_now, name="jobs-waiting"),
    path("jobs/limits/", jobs.day_limits, name="day-limits"),
    path("jobs/<uuid:pk>/", jobs.show, name="job"),
    path("jobs/<uuid:pk>/wait/", jobs.wait, name="job-wait"),
    path("jobs/<uuid:pk>/start/", jobs.start, name="job-start"),
    path("variations/<uuid:uid>/", sweeps.show, name="variations"),
    path("jobs/<uuid:pk>/cancel/", jobs.cancel, name="job-cancel"),
]

question_urls = [
    path("questions/", inbox.index, name="questions"),
    path("questions/waiting/", inbox.waiting_now, name="questions-waiting"),
    path("questions/count/", inbox.count, name="questions-count"),
    path("jobs/<uuid:job>/questions/<int:number>/", inbox.show, name="question"),
    path("jobs/<uuid:job>/questions/<int:number>/answer/", inbox.answer, name="question-answer"),
]

urlpatterns = location_urls + run_urls + checkpoint_urls + job_urls + question_urls

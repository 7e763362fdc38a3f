"""Every address of the viewer, grouped by screen."""

from django.urls import path

from viewer.views import checkpoints, forks, jobs, locations, projects, runs

location_urls = [
    path("", locations.index, name="locations"),
    path("locations/add/", locations.add, name="location-add"),
    path("locations/<uuid:uid>/", locations.show, name="location"),
    path("locations/<uuid:uid>/refresh/", locations.refresh, name="location-refresh"),
    path("locations/<uuid:uid>/project/", projects.edit, name="project"),
]

run_urls = [
    # ?at=<checkpoint id>&tab=<tab> is the selection.
    path("runs/<uuid:uid>/", runs.show, name="run"),
    path("runs/<uuid:uid>/rows/", runs.rows, name="run-rows"),
]

checkpoint_urls = [
    path("checkpoints/<int:pk>/", checkpoints.show, name="checkpoint"),
    path("checkpoints/<int:pk>/raw/", checkpoints.raw, name="checkpoint-raw"),
    path("checkpoints/<int:pk>/fork/", forks.fork, name="fork"),
    path("checkpoints/<int:pk>/fork/plan/", forks.plan, name="fork-plan"),
    path("checkpoints/<int:pk>/resume/", forks.resume, name="resume"),
]

job_urls = [
    path("jobs/", jobs.index, name="jobs"),
    path("jobs/<uuid:pk>/", jobs.show, name="job"),
    path("jobs/<uuid:pk>/cancel/", jobs.cancel, name="job-cancel"),
]

urlpatterns = location_urls + run_urls + checkpoint_urls + job_urls

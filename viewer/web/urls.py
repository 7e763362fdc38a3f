"""The URLs of the viewer, grouped by screen."""

from django.urls import path

from viewer.web.views import (
    accounts,
    audit,
    calls,
    checkpoints,
    collections,
    compare,
    discussion,
    jobs,
    launches,
    locations,
    people,
    projects,
    runs,
    search,
    server,
    shares,
)

location_urls = [
    path("", server.home, name="home"),
    path("notice/", server.show_site_notice, name="site-notice"),
    path("settings/", accounts.show_settings, name="settings"),
    path("settings/save/", accounts.save_settings, name="settings-save"),
    path("locations/", locations.index, name="locations"),
    path("locations/add/", locations.add, name="location-add"),
    path("locations/found/", locations.found, name="locations-found"),
    # ?path=<beginning of a path>
    path("locations/paths/", locations.paths, name="location-paths"),
    path("locations/<uuid:uid>/", locations.show, name="location"),
    path("locations/<uuid:uid>/path/", locations.change, name="location-path"),
    path("locations/<uuid:uid>/pool/", locations.share, name="location-pool"),
    path("locations/<uuid:uid>/refresh/", locations.refresh, name="location-refresh"),
    path("locations/<uuid:uid>/import/cancel/", locations.cancel_import, name="location-cancel-import"),
    path("locations/<uuid:uid>/replaced/", locations.accept_replacement, name="location-replaced"),
    path("locations/<uuid:uid>/remove/", locations.remove, name="location-remove"),
    # ?days=<number>&latest=<number>&branch=<name> choose what is listed.
    path("locations/<uuid:uid>/prune/", locations.prune, name="prune"),
    path("locations/<uuid:uid>/keys/", audit.location_keys, name="location-keys"),
    path("locations/<uuid:uid>/project/", projects.edit, name="project"),
    path("locations/<uuid:uid>/project/limits/", projects.limits, name="project-limits"),
    path("locations/<uuid:uid>/project/keys/", projects.keep_keys, name="project-keys"),
    path("locations/<uuid:uid>/project/isolation/", projects.isolation, name="project-isolation"),
    # ?entry_point=<module:name>&again=<run> fills in the form.
    path("locations/<uuid:uid>/run/", launches.new_run, name="new-run"),
    path("locations/<uuid:uid>/run/plan/", launches.plan_new_run, name="new-run-plan"),
]

run_urls = [
    # ?at=<checkpoint id>&tab=<tab> is the selection.
    path("runs/<uuid:uid>/", runs.show, name="run"),
    path("runs/<uuid:uid>/rows/", runs.rows, name="run-rows"),
    # ?named=<part of a name>
    path("runs/<uuid:uid>/branches/", runs.branches, name="run-branches"),
    # ?branch=<name>&span=<id>&from=<percent>&to=<percent>
    path("runs/<uuid:uid>/timeline/", runs.timeline_of_run, name="run-timeline"),
    # ?format=<a name of ALL_FORMATS>
    path("runs/<uuid:uid>/export/", checkpoints.export_run, name="run-export"),
    # ?to=head, fork or failure, and ?branch=<name>
    path("runs/<uuid:uid>/jump/", runs.jump, name="run-jump"),
    # ?branch=<name> or ?at=<checkpoint id> names what is annotated, else the run itself is.
    path("runs/<uuid:uid>/note/", discussion.edit_annotation, name="annotation"),
    path("runs/<uuid:uid>/star/", discussion.star, name="annotation-star"),
    path("runs/<uuid:uid>/again/", launches.run_again, name="run-again"),
]

checkpoint_urls = [
    path("checkpoints/<int:pk>/", checkpoints.show, name="checkpoint"),
    path("checkpoints/<int:pk>/raw/", checkpoints.raw, name="checkpoint-raw"),
    path("checkpoints/<int:pk>/hidden/", audit.list_hidden, name="hidden-values"),
    path("checkpoints/<int:pk>/hidden/reveal/", audit.reveal, name="hidden-reveal"),
    # ?part=<id of a part>&older=<key of the checkpoint at which it continues>
    path("checkpoints/<int:pk>/history/", checkpoints.show_history, name="checkpoint-history"),
    # ?before=<number of a call>
    path("checkpoints/<int:pk>/calls/", calls.index, name="checkpoint-calls"),
    path("checkpoints/<int:pk>/replay/", calls.replay_all, name="replay-all"),
    path("checkpoints/<int:pk>/replay/plan/", calls.plan_replay_all, name="replay-all-plan"),
    # <name of a call> (viewer/engines/recorded_calls.py)
    path("checkpoints/<int:pk>/calls/<slug:call>/", calls.show, name="checkpoint-call"),
    path("checkpoints/<int:pk>/calls/<slug:call>/replay/", calls.replay, name="replay"),
    path("checkpoints/<int:pk>/calls/<slug:call>/replay/plan/", calls.plan_replay, name="replay-plan"),
    path("checkpoints/<int:pk>/graph/", checkpoints.draw_graph, name="checkpoint-graph"),
    path("checkpoints/<int:pk>/fork/", launches.fork, name="fork"),
    path("checkpoints/<int:pk>/fork/plan/", launches.plan_fork, name="fork-plan"),
    path("checkpoints/<int:pk>/fork/next/", launches.next_units, name="fork-next"),
    # ?name=<path of a source>
    path("checkpoints/<int:pk>/code/", launches.show_code_difference, name="code-difference"),
    path("checkpoints/<int:pk>/resume/", launches.resume, name="resume"),
    path("checkpoints/<int:pk>/resume/plan/", launches.plan_fork, {"kind": "resume"}, name="resume-plan"),
    path("checkpoints/<int:pk>/publish/", launches.publish, name="publish"),
    path("preflight/<uuid:pk>/", launches.show_preflight, name="preflight"),
    path("checkpoints/<int:pk>/sweep/", launches.new_sweep, name="new-sweep"),
    path("checkpoints/<int:pk>/sweep/plan/", launches.plan_sweep, name="new-sweep-plan"),
]

# ?run=<uid>&run=…&checkpoint=<pk>… are the selected ones.
bulk_urls = [
    path("bulk/fork/", launches.bulk, {"kind": "fork"}, name="bulk-fork"),
    path("bulk/fork/plan/", launches.plan_bulk, {"kind": "fork"}, name="bulk-fork-plan"),
    path("bulk/resume/", launches.bulk, {"kind": "resume"}, name="bulk-resume"),
    path("bulk/resume/plan/", launches.plan_bulk, {"kind": "resume"}, name="bulk-resume-plan"),
]

collection_urls = [
    path("collections/", collections.index, name="collections"),
    path("collections/new/", collections.new, name="collection-new"),
    # ?run=<uid>&checkpoint=<pk>… are added, or of one checkpoint the ?kind=<message or call>&part=<name>.
    path("collections/add/", collections.add, name="collection-add"),
    path("collections/<int:pk>/", collections.show, name="collection"),
    path("collections/<int:pk>/change/", collections.change, name="collection-change"),
    path("collections/<int:pk>/delete/", collections.delete, name="collection-delete"),
    path("collections/<int:pk>/export/", collections.export, name="collection-export"),
    path("collections/<int:pk>/import/", collections.import_file, name="collection-import"),
    path("collections/<int:pk>/replay/", calls.replay_collection, name="collection-replay"),
    path("collections/<int:pk>/replay/plan/", calls.plan_replay_collection, name="collection-replay-plan"),
    path("items/<int:pk>/", collections.item, name="collection-item"),
    path("items/<int:pk>/remove/", collections.remove, name="collection-item-remove"),
]

compare_urls = [
    # ?a=<baseline>&b=<another>&b=<another>&row=<row> is the whole comparison.
    # viewer/presentation/comparison_sides.py says what names a checkpoint.
    path("compare/", compare.show, name="compare"),
    # With the same ?a= and b=, and ?format=<a name of COMPARISON_FORMATS>
    path("compare/export/", compare.export, name="compare-export"),
    path("compare/score/", compare.score, name="compare-score"),
]

job_urls = [
    path("jobs/", jobs.index, name="jobs"),
    path("data/", server.show_stored_data, name="stored-data"),
    path("jobs/waiting/", jobs.waiting_now, name="jobs-waiting"),
    path("jobs/limits/", jobs.day_limits, name="day-limits"),
    path("jobs/<uuid:pk>/", jobs.show, name="job"),
    path("jobs/<uuid:pk>/answers/", calls.answers, name="job-answers"),
    path("jobs/<uuid:pk>/timeline/", runs.timeline_of_job, name="job-timeline"),
    path("jobs/<uuid:pk>/wait/", jobs.wait, name="job-wait"),
    path("jobs/<uuid:pk>/start/", jobs.start, name="job-start"),
    path("sweeps/<uuid:uid>/", launches.show_sweep, name="sweep"),
    path("jobs/<uuid:pk>/continue/", jobs.continue_waiting, name="job-continue"),
    path("jobs/<uuid:pk>/cancel/", jobs.cancel, name="job-cancel"),
    path("jobs/<uuid:pk>/give-up/", jobs.give_up, name="job-give-up"),
]

host_urls = [
    path("hosts/", server.hosts, name="hosts"),
    path("hosts/<int:pk>/drain/", server.drain_host, name="host-drain"),
    path("hosts/<int:pk>/remove/", server.remove_host, name="host-remove"),
]

inbox_urls = [
    path("inbox/", jobs.inbox, name="inbox"),
    path("inbox/waiting/", jobs.inbox_now, name="inbox-waiting"),
    path("inbox/count/", jobs.inbox_count, name="inbox-count"),
    # ?at=<checkpoint id>
    path("runs/<uuid:uid>/questions/", jobs.asked_by_run, name="run-questions"),
    path("jobs/<uuid:job>/questions/<int:number>/", jobs.show_question, name="question"),
    path("jobs/<uuid:job>/questions/<int:number>/answer/", jobs.answer_question, name="question-answer"),
]

search_urls = [
    # The query is the whole search (viewer/records/search_filters.py).
    path("search/", search.index, name="search"),
    # ?location=<part of a path>
    path("search/locations/", search.locations, name="search-locations"),
    path("palette/", search.palette, name="palette"),
    path("search/saved/", search.save, name="search-save"),
    path("search/saved/<int:pk>/remove/", search.remove, name="search-remove"),
]

share_urls = [
    path("shares/", shares.index, name="shares"),
    # ?kind=<kind>&target=<what names the object> (viewer/presentation/share_links.py).
    path("shares/new/", shares.new, name="share"),
    path("shares/preview/<str:what>/", shares.preview, name="share-preview"),
    path("shares/preview/<str:what>/rows/", shares.preview_rows, name="share-preview-rows"),
    path("shares/preview/<str:what>/picture.png", shares.preview_picture, name="share-preview-picture"),
    path("shares/<int:pk>/revoke/", shares.revoke, name="share-revoke"),
]

audit_urls = [
    # ?actor=<name>&action=<action>&kind=<kind>&key=<key>&since=<day>&until=<day>&before=<number of an entry>
    path("audit/", audit.index, name="audit"),
    path("audit/export/", audit.export, name="audit-export"),
]

role_urls = [
    path("roles/", people.show_roles, name="roles"),
    path("roles/give/", people.give_role, name="role-give"),
    path("roles/<int:pk>/take/", people.take_role, name="role-take"),
    path("invitations/new/", people.new_invitation, name="invitation-new"),
    path("invitations/<int:pk>/revoke/", people.revoke_invitation, name="invitation-revoke"),
    path("teams/change/", people.change_team, name="team-change"),
    path("people/<int:pk>/", people.show_person, name="person"),
    path("people/<int:pk>/sessions/end/", people.end_all_sessions, name="sessions-end"),
    path("people/<int:pk>/password/", people.reset_link, name="person-reset-link"),
    path("people/<int:pk>/factors/remove/", people.remove_factors, name="person-factors-remove"),
    path("people/<int:pk>/active/", people.change_active, name="person-active"),
    path("teams/<int:pk>/quotas/", people.change_quotas, name="team-quotas"),
]

discussion_urls = [
    # ?at=<checkpoint id> for a checkpoint, else all of the run.
    path("runs/<uuid:uid>/comments/", discussion.of_run, name="comments"),
    path("runs/<uuid:uid>/comments/add/", discussion.write_on_run, name="comment-add"),
    path(
        "jobs/<uuid:job>/questions/<int:number>/comments/", discussion.of_question, name="question-comments"
    ),
    path(
        "jobs/<uuid:job>/questions/<int:number>/comments/add/",
        discussion.write_on_question,
        name="question-comment-add",
    ),
    path("compare/comments/", discussion.of_comparison, name="comparison-comments"),
    path("compare/comments/add/", discussion.write_on_comparison, name="comparison-comment-add"),
    path("comments/<int:pk>/", discussion.show, name="comment"),
    path("comments/<int:pk>/edit/", discussion.edit, name="comment-edit"),
    path("comments/<int:pk>/delete/", discussion.delete, name="comment-delete"),
    path("comments/<int:pk>/resolve/", discussion.resolve, name="comment-resolve"),
]

token_urls = [
    path("tokens/", accounts.show_tokens, name="tokens"),
    path("tokens/new/", accounts.new_token, name="token-new"),
    path("tokens/<int:pk>/revoke/", accounts.revoke_one_token, name="token-revoke"),
]

notification_urls = [
    path("notifications/", discussion.notifications, name="notifications"),
    path("notifications/save/", discussion.save_target, name="notifications-save"),
    path("runs/<uuid:uid>/mute/", discussion.mute_run, name="run-mute"),
]

urlpatterns = (
    location_urls
    + run_urls
    + checkpoint_urls
    + bulk_urls
    + collection_urls
    + compare_urls
    + job_urls
    + host_urls
    + inbox_urls
    + search_urls
    + share_urls
    + audit_urls
    + role_urls
    + discussion_urls
    + token_urls
    + notification_urls
)

"""Store what runs and jobs cost, whenever their usage or the prices have changed."""

from django.db.models import Q

from viewer.models import Job, JobEvent, Location, Run
from viewer.models.many_rows import update_many
from viewer.models.usage import usage_values
from viewer.prices.price_list import PriceList, current_prices
from viewer.stores.model_calls import ModelCall, ModelUsage, count_of, usage_by_model

# Runs that one import prices. The others follow with the next one.
BATCH = 500


def price_runs(location: Location) -> bool:
    """Store the cost of runs whose usage or prices have changed. Returns whether there were any."""
    prices = current_prices()
    if location.price_digest != prices.digest:
        location.runs.exclude(usage=[]).update(is_priced=False)
        Location.objects.filter(pk=location.pk).update(price_digest=prices.digest)
        location.price_digest = prices.digest
    due = list(location.runs.filter(is_priced=False).order_by()[:BATCH])
    costs = [prices.cost(usage_of(run), run.last_at) for run in due]
    rows = [(cost.amount, cost.unpriced_calls, True, run.pk) for run, cost in zip(due, costs, strict=True)]
    update_many(Run, ("cost", "unpriced_calls", "is_priced"), rows)
    return bool(due)


def price_job(job: Job, prices: PriceList | None = None) -> None:
    """Store what the calls of a job used, by model, and what they cost."""
    events = JobEvent.objects.filter(job=job).filter(Q(kind="model_completed") | Q(kind="cache_warmed"))
    usage = usage_by_model(call_in(data) for data in events.values_list("data", flat=True))
    cost = (prices or current_prices()).cost(usage, job.started_at)
    names = dict(zip(Job.USAGE_COLUMNS, usage_values([list(one) for one in usage]), strict=True))
    # The total is counted while the job runs, since limits depend on it.
    del names["tokens"]
    names |= {"cost": cost.amount, "unpriced_calls": cost.unpriced_calls}
    Job.objects.filter(pk=job.pk).update(**names)
    for name, value in names.items():
        setattr(job, name, value)


def usage_of(row: Run | Job) -> list[ModelUsage]:
    """The stored usage of a run or a job, by model."""
    return [ModelUsage(*used) for used in row.usage]


def call_in(data: dict[str, object]) -> ModelCall:
    """The call of a job's event."""
    tokens, tokens_in, tokens_out, cached = (
        count_of(data.get(name)) for name in ("tokens", "tokens_in", "tokens_out", "cached")
    )
    return ModelCall(tokens, tokens_in, tokens_out, cached, str(data.get("model") or ""))

"""Pipeline: is everything answered, how quickly, and what holds it up."""

from ops.grafana.machinery import BROKER, PROCESSES, SERVICES
from ops.grafana.panels import (
    BUSINESS,
    BUSINESSES,
    ENGINE,
    ENGINES,
    Dashboard,
    Panel,
    Query,
    Row,
    Step,
    newest,
    quantile,
    quantiles,
    seldom,
    summed,
)

NOW = Row(
    "Now",
    (
        Panel(
            title="Oldest step owed",
            says="How long the oldest thing waits that should have happened by now, over all stages. 0: nothing is overdue.",
            unit="s",
            kind="stat",
            queries=(Query("max(leeway_owed_seconds)", "oldest"),),
            steps=(Step(30, "yellow"), Step(120, "red")),
            empty="nobody looked",
        ),
        Panel(
            title="Processes at work",
            says="How many processes of each service answer, by the last scrape.",
            unit="none",
            kind="stat",
            queries=(Query(f"count by (job) (up{{{SERVICES}}} == 1)", "{{job}}"),),
            empty="none answers",
        ),
        Panel(
            title="Failed work that nobody settled",
            says="What is among the dead until somebody decides: `leeway dead list`.",
            unit="none",
            kind="stat",
            queries=(Query(summed("leeway_dead_unsettled"), "dead"),),
            steps=(Step(1, "red"),),
            empty="nobody looked",
        ),
    ),
)

FLOW = (
    Row(
        "Throughput",
        (
            Panel(
                title="Messages, turns and sends",
                says="What each stage gets done a second. Lines that drift apart: the stage between is behind.",
                unit="cps",
                queries=(
                    Query("sum(rate(leeway_messages_stored_total[$__rate_interval]))", "messages stored"),
                    Query(
                        f"sum(rate(leeway_messages_judged_total{{{BUSINESS}}}[$__rate_interval]))",
                        "messages judged",
                    ),
                    Query(f"sum(rate(leeway_turns_total{{{BUSINESS}}}[$__rate_interval]))", "turns ended"),
                    Query("sum(rate(leeway_sends_total[$__rate_interval]))", "sends"),
                ),
            ),
            Panel(
                title="Webhooks by status",
                says="What channels were answered. 401: badly signed · 503: not stored, the channel delivers again.",
                unit="reqps",
                queries=(seldom("leeway_webhooks_total", by="outcome"),),
                stacked=True,
            ),
            Panel(
                title="Time to answer a webhook",
                says="From the request to its answer, when what it brought is committed. Channels give up after some seconds.",
                unit="s",
                queries=quantiles("leeway_webhook_seconds"),
                steps=(Step(1, "yellow"), Step(5, "red")),
            ),
        ),
    ),
    Row(
        "How long it takes",
        (
            Panel(
                title="From message to reply",
                says="From the oldest message that a reply answers until the provider took it; drafts aside.",
                unit="s",
                queries=quantiles("leeway_end_to_end_seconds"),
                steps=(Step(30, "red"),),
            ),
            Panel(
                title="Wait by stage (p95)",
                says="From when work was due until a process took it. It grows when there are too few processes of the stage.",
                unit="s",
                queries=(quantile(0.95, "leeway_queue_wait_seconds", by="stage", legend="{{stage}}"),),
            ),
            Panel(
                title="Turns: duration and overhead",
                says="A turn from its claim to its commit, and what of it was not the model's (p95: 0.15 s at half load).",
                unit="s",
                queries=(
                    quantile(0.5, "leeway_turn_seconds", by="engine", where=ENGINE, legend="{{engine}}, p50"),
                    quantile(
                        0.95, "leeway_turn_seconds", by="engine", where=ENGINE, legend="{{engine}}, p95"
                    ),
                    quantile(
                        0.95,
                        "leeway_turn_overhead_seconds",
                        by="engine",
                        where=ENGINE,
                        legend="{{engine}}, overhead, p95",
                    ),
                ),
            ),
        ),
    ),
)

DEBTS = (
    Row(
        "What is owed",
        (
            Panel(
                title="Oldest step owed by stage",
                says="How long the oldest overdue step waits: messages to judge, turns to take, replies to send, media to fetch.",
                unit="s",
                queries=(newest("leeway_owed_seconds", by="stage"),),
                steps=(Step(60, "red"),),
                empty="nobody looked",
            ),
            Panel(
                title="Steps owed by stage",
                says="How many steps are overdue, counted up to a bound.",
                unit="none",
                queries=(newest("leeway_owed", by="stage"),),
                empty="nobody looked",
            ),
            Panel(
                title="Turns under way",
                says="What the agents work on at this moment; at their number of slots they are full.",
                unit="none",
                queries=(Query("sum by (instance) (leeway_turns_under_way)", "{{instance}}"),),
                stacked=True,
            ),
        ),
    ),
    Row(
        "How work goes",
        (
            Panel(
                title="Items in a batch",
                says="The mean number of items that one statement worked on. It grows with the load.",
                unit="none",
                queries=(
                    Query(
                        "sum by (stage) (rate(leeway_batch_size_sum[$__rate_interval]))"
                        " / sum by (stage) (rate(leeway_batch_size_count[$__rate_interval]))",
                        "{{stage}}",
                    ),
                ),
                decimals=1,
            ),
            Panel(
                title="Tried again",
                says="Model calls, sends, and batches that were repeated item by item, by why.",
                unit="cps",
                queries=(seldom("leeway_retries_total", by="stage, reason", legend="{{stage}}: {{reason}}"),),
                empty="nothing was",
            ),
            Panel(
                title="Taken up again, and given up",
                says="Turns that a worker lost and another took up, and work that ended among the dead.",
                unit="cps",
                queries=(
                    Query(
                        "sum(rate(leeway_turns_reclaimed_total[$__rate_interval]))", "turns taken up again"
                    ),
                    seldom("leeway_dead_letters_total", by="stage", legend="dead: {{stage}}"),
                ),
                empty="nothing was",
            ),
        ),
    ),
)

PIPELINE = Dashboard(
    uid="leeway-pipeline",
    title="Leeway: Pipeline",
    says="Is everything answered, how quickly, and what holds it up.",
    variables=(BUSINESSES, ENGINES),
    rows=(NOW, *FLOW, *DEBTS, *BROKER, *PROCESSES),
)

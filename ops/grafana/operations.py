"""Operations: what waits for people, and what became of replies."""

from ops.grafana.panels import (
    BUSINESS,
    BUSINESSES,
    Dashboard,
    Panel,
    Query,
    Row,
    Step,
    newest,
    seldom,
    summed,
)

OPEN = "leeway_handoffs_open"

NOW = Row(
    "Waits for people now",
    (
        Panel(
            title="Drafts",
            says="Replies that wait for an operator: `leeway drafts list`.",
            unit="none",
            kind="stat",
            queries=(Query(summed("leeway_drafts_waiting", where=BUSINESS), "drafts"),),
            steps=(Step(10, "yellow"), Step(50, "red")),
            empty="none, or nobody looked",
        ),
        Panel(
            title="Approvals",
            says="Actions that the bot may do only if an operator says yes: `leeway approvals list`.",
            unit="none",
            kind="stat",
            queries=(Query(summed("leeway_approvals_waiting", where=BUSINESS), "approvals"),),
            steps=(Step(5, "yellow"), Step(20, "red")),
            empty="none, or nobody looked",
        ),
        Panel(
            title="Handoffs that nobody claimed",
            says="Conversations that only people answer, and nobody has taken: `leeway handoffs list`.",
            unit="none",
            kind="stat",
            queries=(Query(summed(OPEN, where=f'{BUSINESS}, claimed="no"'), "unclaimed"),),
            steps=(Step(1, "yellow"), Step(10, "red")),
            empty="none, or nobody looked",
        ),
    ),
)

WAITING = (
    Row(
        "How many wait",
        (
            Panel(
                title="Drafts by business",
                says="Replies that wait for an operator.",
                unit="none",
                queries=(newest("leeway_drafts_waiting", by="business", where=BUSINESS),),
                empty="none, or nobody looked",
            ),
            Panel(
                title="Approvals by business",
                says="Actions that wait for an operator's yes. What nobody approves in time is declined.",
                unit="none",
                queries=(newest("leeway_approvals_waiting", by="business", where=BUSINESS),),
                empty="none, or nobody looked",
            ),
            Panel(
                title="Conversations with people, by business",
                says="Claimed by somebody, or not.",
                unit="none",
                queries=(
                    newest(
                        OPEN,
                        by="business, claimed",
                        where=f'{BUSINESS}, claimed="no"',
                        legend="{{business}}: unclaimed",
                    ),
                    newest(
                        OPEN,
                        by="business, claimed",
                        where=f'{BUSINESS}, claimed="yes"',
                        legend="{{business}}: claimed",
                    ),
                ),
                empty="none, or nobody looked",
            ),
        ),
    ),
    Row(
        "How long the oldest waits",
        (
            Panel(
                title="Oldest draft",
                says="A reply is worth less with every hour that it waits.",
                unit="s",
                queries=(newest("leeway_drafts_oldest_seconds", by="business", where=BUSINESS),),
                steps=(Step(3600, "red"),),
                empty="none, or nobody looked",
            ),
            Panel(
                title="Oldest approval",
                says="A customer was told that somebody looks at it.",
                unit="s",
                queries=(newest("leeway_approvals_oldest_seconds", by="business", where=BUSINESS),),
                steps=(Step(3600, "red"),),
                empty="none, or nobody looked",
            ),
            Panel(
                title="Oldest handoff that nobody claimed",
                says="The bot is silent there, and so is everybody else.",
                unit="s",
                queries=(
                    newest(
                        "leeway_handoffs_oldest_seconds", by="business", where=f'{BUSINESS}, claimed="no"'
                    ),
                ),
                steps=(Step(1800, "red"),),
                empty="none, or nobody looked",
            ),
        ),
    ),
)

REPLIES = (
    Row(
        "Sends",
        (
            Panel(
                title="Sends by outcome",
                says="accepted: taken · throttled: again later · no_answer: nobody knows · refused: people look.",
                unit="cps",
                queries=(seldom("leeway_sends_total", by="outcome"),),
                stacked=True,
            ),
            Panel(
                title="Sends by channel",
                says="All attempts, whatever came of them.",
                unit="cps",
                queries=(seldom("leeway_sends_total", by="channel"),),
                stacked=True,
            ),
            Panel(
                title="Refused for good, by trouble",
                says="What the provider said: the account, the person, the words, or our own request.",
                unit="cps",
                queries=(
                    seldom(
                        "leeway_sends_refused_total", by="channel, trouble", legend="{{channel}}: {{trouble}}"
                    ),
                ),
                stacked=True,
                empty="none",
            ),
        ),
    ),
    Row(
        "Replies that did not leave",
        (
            Panel(
                title="What became of them",
                says="draft: people decide · superseded: a newer message made it stale · discarded: the customer wants none.",
                unit="cps",
                queries=(seldom("leeway_outbounds_total", by="state"),),
                stacked=True,
                empty="all left",
            ),
            Panel(
                title="Drafts made, by reason",
                says="suggest is the business's choice; the others are about a reply, a send or a window.",
                unit="cps",
                queries=(seldom("leeway_outbounds_total", by="reason", where='state="draft"'),),
                stacked=True,
                empty="none",
            ),
            Panel(
                title="Handoffs that nobody claimed in time",
                says="reminded: operators were · told: the customer was told that it takes longer.",
                unit="cps",
                queries=(
                    seldom(
                        "leeway_handoffs_waiting_total",
                        by="business, state",
                        where=BUSINESS,
                        legend="{{business}}: {{state}}",
                    ),
                ),
                empty="all were claimed",
            ),
        ),
    ),
    Row(
        "Accounts and the rest",
        (
            Panel(
                title="Channel accounts",
                says="On, disabled by a person or a provider that refused all sends, or unheard: webhooks are all refused.",
                unit="none",
                queries=(
                    newest("leeway_channel_accounts", by="channel, state", legend="{{channel}}: {{state}}"),
                    Query("max by (channel) (leeway_webhook_accounts_refused) > 0", "{{channel}}: unheard"),
                ),
                empty="none, or nobody looked",
            ),
            Panel(
                title="Failed work that nobody settled",
                says="By the stage that gave up: `leeway dead list`.",
                unit="none",
                queries=(newest("leeway_dead_unsettled", by="stage"),),
                steps=(Step(1, "red"),),
                empty="nobody looked",
            ),
            Panel(
                title="Reminders",
                says="Queued, and withdrawn before they left.",
                unit="cps",
                queries=(seldom("leeway_reminders_total", by="state", where=BUSINESS),),
                empty="none",
            ),
        ),
    ),
)

OPERATIONS = Dashboard(
    uid="leeway-operations",
    title="Leeway: Operations",
    says="What waits for people, and what became of replies.",
    variables=(BUSINESSES,),
    rows=(NOW, *WAITING, *REPLIES),
)

"""Safety: what was kept from happening, and what people had to agree to."""

from ops.grafana.panels import (
    BUSINESS,
    BUSINESSES,
    Dashboard,
    Panel,
    Query,
    Row,
    Step,
    rate,
    seldom,
    total,
)

JUDGED = "leeway_messages_judged_total"

RANGE = Row(
    "The range shown",
    (
        Panel(
            title="Replies held back",
            says="They claimed something that no receipt shows, and became drafts.",
            unit="none",
            kind="stat",
            queries=(Query(total("leeway_blocked_claims_total", where=BUSINESS), "held back"),),
            steps=(Step(1, "yellow"),),
            decimals=0,
            empty="0",
        ),
        Panel(
            title="Calls that the gate denied",
            says="Tools that the model asked for and that may not run as things stand; injected orders end here.",
            unit="none",
            kind="stat",
            queries=(Query(total("leeway_gate_decisions_total", where='decision="deny"'), "denied"),),
            decimals=0,
            empty="0",
        ),
        Panel(
            title="Webhooks badly signed",
            says="A wrong secret at a provider, or somebody who tries. They are never read.",
            unit="none",
            kind="stat",
            queries=(Query(total("leeway_webhooks_total", where='outcome=~"401|403"'), "refused"),),
            steps=(Step(20, "yellow"),),
            decimals=0,
            empty="0",
        ),
    ),
)

ROWS = (
    Row(
        "The guard",
        (
            Panel(
                title="Messages by guard reason",
                says="Why messages did not simply go to the agent.",
                unit="cps",
                queries=(rate(JUDGED, by="reason", where=f'{BUSINESS}, reason!=""'),),
                stacked=True,
                empty="all went to the agent",
            ),
            Panel(
                title="Messages by verdict",
                says="turn: the agent handles it · stored: shown only · consent: STOP or START · handoff: people take over.",
                unit="cps",
                queries=(rate(JUDGED, by="verdict", where=BUSINESS),),
                stacked=True,
            ),
            Panel(
                title="Loops and floods",
                says="Machines that answer us, and people who write more than the limit.",
                unit="cps",
                queries=(
                    rate(
                        JUDGED,
                        by="business, reason",
                        where=f'{BUSINESS}, reason=~"loop|rate_limited"',
                        legend="{{business}}: {{reason}}",
                    ),
                ),
                steps=(Step(1, "red"),),
                empty="none",
            ),
        ),
    ),
    Row(
        "What the model wants",
        (
            Panel(
                title="Gate decisions",
                says="allow: it ran · ask: people must agree first · deny: it may not run · refuse: a check said no.",
                unit="cps",
                queries=(seldom("leeway_gate_decisions_total", by="decision"),),
                stacked=True,
            ),
            Panel(
                title="Calls that did not run, by reason",
                says="unknown_tool and bad_arguments: the model errs · the rest: it wants what it may not have.",
                unit="cps",
                queries=(
                    seldom(
                        "leeway_gate_decisions_total",
                        by="reason",
                        where='decision=~"deny|refuse", reason!=""',
                    ),
                ),
                stacked=True,
                empty="all ran",
            ),
            Panel(
                title="Confirmations by outcome",
                says="What came of answers to a question: executed, declined, asked again, something else.",
                unit="cps",
                queries=(seldom("leeway_confirmations_total", by="outcome"),),
                stacked=True,
            ),
        ),
    ),
    Row(
        "What went wrong on the way",
        (
            Panel(
                title="Replies held back, by business",
                says="Replies that claimed what no receipt shows. Several in a row: the model or its prompt has changed.",
                unit="cps",
                queries=(seldom("leeway_blocked_claims_total", by="business", where=BUSINESS),),
                empty="none",
            ),
            Panel(
                title="What nobody may want",
                says="Calls of tools that there are not, or that may not run: what an injected order comes to.",
                unit="cps",
                queries=(
                    seldom(
                        "leeway_gate_decisions_total",
                        by="reason",
                        where='reason=~"unknown_tool|not_permitted_at_level|autonomy_off|declined_by_.*"',
                    ),
                ),
                stacked=True,
                empty="none",
            ),
            Panel(
                title="Fixed replies by reason",
                says="The model did not answer as it should, and the customer got an honest fixed reply.",
                unit="cps",
                queries=(seldom("leeway_fallbacks_total", by="reason"),),
                stacked=True,
                empty="none",
            ),
        ),
    ),
    Row(
        "From outside",
        (
            Panel(
                title="Webhooks refused",
                says="401 and 403: badly signed, so a wrong secret or somebody who tries · 404: no such account.",
                unit="reqps",
                queries=(
                    seldom(
                        "leeway_webhooks_total",
                        by="channel, outcome",
                        where='outcome=~"4.."',
                        legend="{{channel}}: {{outcome}}",
                    ),
                ),
                empty="none",
            ),
            Panel(
                title="For somebody else",
                says="Messages and statuses in signed webhooks that were for another business's address, and were dropped.",
                unit="cps",
                queries=(seldom("leeway_webhook_parts_misaddressed_total", by="channel"),),
                empty="none",
            ),
            Panel(
                title="Handed to people, by reason",
                says="Why conversations left the bot.",
                unit="cps",
                queries=(rate("leeway_handoffs_total", by="reason", where=BUSINESS),),
                stacked=True,
                empty="none",
            ),
        ),
    ),
)

SAFETY = Dashboard(
    uid="leeway-safety",
    title="Leeway: Safety",
    says="What was kept from happening, and what people had to agree to.",
    variables=(BUSINESSES,),
    rows=(RANGE, *ROWS),
)

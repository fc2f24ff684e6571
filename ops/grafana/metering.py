"""Metering: what models cost, how much they read and write, how long they take."""

from ops.grafana.panels import (
    BUSINESS,
    BUSINESSES,
    ENGINE,
    ENGINES,
    MODEL,
    MODELS,
    Dashboard,
    Panel,
    Query,
    Row,
    Step,
    quantile,
    quantiles,
    rate,
    seldom,
    total,
)

TOKENS = "leeway_llm_tokens_total"
COST = "leeway_llm_cost_usd_total"
LATENCY = "leeway_llm_latency_seconds"
ALL_THREE = f"{BUSINESS}, {MODEL}, {ENGINE}"
OF_A_MODEL = f"{MODEL}, {ENGINE}"
AN_HOUR = " * 3600"
ANSWERED = f'{BUSINESS}, verdict="turn"'

RANGE = Row(
    "The range shown",
    (
        Panel(
            title="Cost",
            says="US dollars billed for calls of known price in the range shown. `leeway report` has it to the cent.",
            unit="currencyUSD",
            kind="stat",
            queries=(Query(total(COST, where=ALL_THREE), "cost"),),
            decimals=2,
            empty="no call with a price",
        ),
        Panel(
            title="Cost of an answered message",
            says="Cost of the chosen businesses, divided by the messages that the agent was given.",
            unit="currencyUSD",
            kind="stat",
            queries=(
                Query(
                    f"{total(COST, where=BUSINESS)}"
                    f" / ({total('leeway_messages_judged_total', where=ANSWERED)} > 0)",
                    "a message",
                ),
            ),
            decimals=4,
            empty="no message, or no price",
        ),
        Panel(
            title="Tokens",
            says="Tokens read and written. Cached ones are part of the input, reasoning ones part of the output.",
            unit="short",
            kind="stat",
            queries=(Query(total(TOKENS, where=f'{ALL_THREE}, kind=~"input|output"'), "tokens"),),
        ),
    ),
)

TOKEN_ROWS = (
    Row(
        "Tokens a second",
        (
            Panel(
                title="Tokens by kind",
                says="Cached tokens are also counted in the input, reasoning tokens also in the output.",
                unit="cps",
                queries=(rate(TOKENS, by="kind", where=ALL_THREE),),
            ),
            Panel(
                title="Tokens by iteration",
                says="Input and output, by which call of a turn it was. Later calls carry the tools' results with them.",
                unit="cps",
                queries=(
                    rate(
                        TOKENS,
                        by="iteration",
                        where=f'{ALL_THREE}, kind=~"input|output"',
                        legend="call {{iteration}}",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                title="Cached share of the input",
                says="What the provider read from its cache. It falls when prompts change, or when calls are far apart.",
                unit="percentunit",
                queries=(
                    Query(
                        f'sum by (model) (rate({TOKENS}{{{ALL_THREE}, kind="cached"}}[$__rate_interval]))'
                        f' / sum by (model) (rate({TOKENS}{{{ALL_THREE}, kind="input"}}[$__rate_interval]))',
                        "{{model}}",
                    ),
                ),
                empty="nothing cached",
            ),
        ),
    ),
    Row(
        "Tokens a second, by who and what",
        (
            Panel(
                title="Tokens by model",
                says="Input and output, by model.",
                unit="cps",
                queries=(rate(TOKENS, by="model", where=f'{ALL_THREE}, kind=~"input|output"'),),
                stacked=True,
            ),
            Panel(
                title="Tokens by engine",
                says="Input and output, by how turns are understood.",
                unit="cps",
                queries=(rate(TOKENS, by="engine", where=f'{ALL_THREE}, kind=~"input|output"'),),
                stacked=True,
            ),
            Panel(
                title="Tokens by business",
                says="Input and output, by business: the ten that use most.",
                unit="cps",
                queries=(
                    Query(
                        f'topk(10, sum by (business) (rate({TOKENS}{{{ALL_THREE}, kind=~"input|output"}}[$__rate_interval])))',
                        "{{business}}",
                    ),
                ),
            ),
        ),
    ),
)

COST_ROWS = (
    Row(
        "US dollars an hour",
        (
            Panel(
                title="Cost by model",
                says="What an hour costs at the present rate, by model. A model without a price is not in it.",
                unit="currencyUSD",
                queries=(rate(COST, by="model", where=ALL_THREE, times=AN_HOUR),),
                stacked=True,
                empty="no call with a price",
            ),
            Panel(
                title="Cost by engine and iteration",
                says="What an hour costs at the present rate, by engine and by which call of a turn it was.",
                unit="currencyUSD",
                queries=(
                    rate(
                        COST,
                        by="engine, iteration",
                        where=ALL_THREE,
                        times=AN_HOUR,
                        legend="{{engine}}, call {{iteration}}",
                    ),
                ),
                stacked=True,
                empty="no call with a price",
            ),
            Panel(
                title="Cost by business",
                says="What an hour costs at the present rate: the ten businesses that cost most.",
                unit="currencyUSD",
                queries=(
                    Query(
                        f"topk(10, sum by (business) (rate({COST}{{{ALL_THREE}}}[$__rate_interval]))) * 3600",
                        "{{business}}",
                    ),
                ),
                empty="no call with a price",
            ),
        ),
    ),
)

LATENCY_ROWS = (
    Row(
        "Time to a model's answer",
        (
            Panel(
                title="Latency",
                says="Of one call, also of one that failed. Half, 95 and 99 of a hundred calls were quicker.",
                unit="s",
                queries=quantiles(LATENCY, where=OF_A_MODEL),
                steps=(Step(10, "yellow"), Step(30, "red")),
            ),
            Panel(
                title="Latency by iteration (p95)",
                says="By which call of a turn it was.",
                unit="s",
                queries=(
                    quantile(0.95, LATENCY, by="iteration", where=OF_A_MODEL, legend="call {{iteration}}"),
                ),
            ),
            Panel(
                title="Latency by model and engine (p95)",
                says="To compare models and engines that run side by side.",
                unit="s",
                queries=(
                    quantile(
                        0.95, LATENCY, by="model, engine", where=OF_A_MODEL, legend="{{model}}, {{engine}}"
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Calls",
        (
            Panel(
                title="Calls by model",
                says="Calls a second, failed ones too.",
                unit="reqps",
                queries=(rate(f"{LATENCY}_count", by="model", where=OF_A_MODEL),),
                stacked=True,
            ),
            Panel(
                title="Failed calls by reason",
                says="rate: the provider's limit · auth: key or quota · gone: no such model · open: not called at all.",
                unit="reqps",
                queries=(
                    seldom(
                        "leeway_llm_failures_total",
                        by="model, reason",
                        where=MODEL,
                        legend="{{model}}: {{reason}}",
                    ),
                ),
                empty="none failed",
            ),
            Panel(
                title="Calls that a cap forbade",
                says="The cap of a turn, a conversation or a business's day was reached: a fixed reply goes out.",
                unit="cps",
                queries=(
                    seldom(
                        "leeway_cap_hits_total",
                        by="business, cap",
                        where=BUSINESS,
                        legend="{{business}}: {{cap}}",
                    ),
                ),
                empty="no cap reached",
            ),
        ),
    ),
)

METERING = Dashboard(
    uid="leeway-metering",
    title="Leeway: Metering",
    says="What models cost, how much they read and write, how long they take.",
    variables=(BUSINESSES, MODELS, ENGINES),
    rows=(RANGE, *TOKEN_ROWS, *COST_ROWS, *LATENCY_ROWS),
)

"""What the pipeline runs on: RabbitMQ, Postgres, processes. Rows of the dashboard Pipeline."""

from ops.grafana.panels import Panel, Query, Row, Step, quantile, rate, seldom

SERVICES = 'job=~"ingest|guard|agent|dispatch"'
QUEUE = 'queue=~"leeway.+"'
DATABASE = 'datname!~"template.*|"'

BROKER = (
    Row(
        "RabbitMQ",
        (
            Panel(
                title="Tickets waiting",
                says="Ready and unacknowledged tickets by queue. They are ids: losing them loses no message.",
                unit="none",
                queries=(
                    Query(
                        f"sum by (queue) (rabbitmq_detailed_queue_messages_ready{{{QUEUE}}})",
                        "{{queue}}: ready",
                    ),
                    Query(
                        f"sum by (queue) (rabbitmq_detailed_queue_messages_unacked{{{QUEUE}}})",
                        "{{queue}}: taken",
                    ),
                ),
                empty="RabbitMQ is not scraped",
            ),
            Panel(
                title="Tickets by stage",
                says="What our processes published, could not publish, took and could not read.",
                unit="cps",
                queries=(
                    seldom("leeway_packets_total", by="stage, outcome", legend="{{stage}}: {{outcome}}"),
                ),
            ),
            Panel(
                title="Consumers",
                says="Processes that a stage's queue feeds at this moment. 0: the stage lives by looking alone, or not at all.",
                unit="none",
                queries=(Query("sum by (stage) (leeway_consumer_attached)", "{{stage}}"),),
            ),
        ),
    ),
    Row(
        "RabbitMQ and Postgres",
        (
            Panel(
                title="RabbitMQ's memory",
                says="Of the node, and the limit from which on it blocks publishers. Webhooks are answered all the same.",
                unit="bytes",
                queries=(
                    Query("max by (instance) (rabbitmq_process_resident_memory_bytes)", "used"),
                    Query("max by (instance) (rabbitmq_resident_memory_limit_bytes)", "limit"),
                ),
                empty="RabbitMQ is not scraped",
            ),
            Panel(
                title="Postgres: connections",
                says="By state, and how many the server allows.",
                unit="none",
                queries=(
                    Query("sum by (state) (pg_stat_activity_count) > 0", "{{state}}"),
                    Query("max(pg_settings_max_connections)", "allowed"),
                ),
                empty="Postgres is not scraped",
            ),
            Panel(
                title="Postgres: transactions",
                says="Committed and rolled back a second, by database, and deadlocks, which should not be.",
                unit="cps",
                queries=(
                    rate(
                        "pg_stat_database_xact_commit",
                        by="datname",
                        where=DATABASE,
                        legend="{{datname}}: committed",
                    ),
                    rate(
                        "pg_stat_database_xact_rollback",
                        by="datname",
                        where=DATABASE,
                        legend="{{datname}}: rolled back",
                    ),
                    Query(
                        f"sum(rate(pg_stat_database_deadlocks{{{DATABASE}}}[$__rate_interval]))",
                        "deadlocks",
                    ),
                ),
                empty="Postgres is not scraped",
            ),
        ),
    ),
)

PROCESSES = (
    Row(
        "Processes",
        (
            Panel(
                title="CPU",
                says="Cores that each service uses. A process of ours can use one: near one each, add processes.",
                unit="none",
                queries=(rate("process_cpu_seconds_total", by="job", where=SERVICES),),
                stacked=True,
                decimals=2,
            ),
            Panel(
                title="Memory",
                says="Resident memory of each process; compose allows 512 MiB.",
                unit="bytes",
                queries=(
                    Query(
                        f"sum by (job, instance) (process_resident_memory_bytes{{{SERVICES}}})",
                        "{{job}} {{instance}}",
                    ),
                ),
            ),
            Panel(
                title="Ready",
                says="Processes that say they can work, by service; beside them those that are there.",
                unit="none",
                queries=(
                    Query("sum by (job) (leeway_ready)", "{{job}}: ready"),
                    Query("sum by (service, version) (leeway_service_info)", "{{service}} {{version}}"),
                ),
            ),
        ),
    ),
    Row(
        "Inside a process",
        (
            Panel(
                title="Connections to Postgres",
                says="Of the pools, by service: all busy means that work waits for a connection.",
                unit="none",
                queries=(Query("sum by (job, state) (leeway_pool_connections)", "{{job}}: {{state}}"),),
            ),
            Panel(
                title="Wait for a connection (p95)",
                says="How long work waits for a connection of its process's pool.",
                unit="s",
                queries=(quantile(0.95, "leeway_pool_wait_seconds", by="job", legend="{{job}}"),),
                steps=(Step(0.5, "red"),),
            ),
            Panel(
                title="Lag of the event loop (p99)",
                says="How late a process does what is due: it computes too much at once, or has too little CPU.",
                unit="s",
                queries=(quantile(0.99, "leeway_event_loop_lag_seconds", by="job", legend="{{job}}"),),
                steps=(Step(0.5, "red"),),
            ),
        ),
    ),
)

-- The floor's tables: which stage has seen a message, what is known of it, and what the stage hands on.
CREATE TABLE seen (
    message uuid NOT NULL,
    stage smallint NOT NULL,
    PRIMARY KEY (message, stage)
);
CREATE TABLE state (
    message uuid PRIMARY KEY,
    stage smallint NOT NULL,
    version integer NOT NULL,
    due_at timestamptz
) WITH (fillfactor = 50);
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message uuid NOT NULL,
    stage smallint NOT NULL,
    body text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

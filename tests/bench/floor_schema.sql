-- The floor's tables: who was seen by which stage, what the stage left, and what is owed when.
CREATE TABLE seen (
    stage smallint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (number, stage)
);
CREATE TABLE step (
    number bigint NOT NULL,
    stage smallint NOT NULL,
    outcome text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (number, stage)
);
CREATE TABLE debt (
    number bigint PRIMARY KEY,
    stage smallint NOT NULL,
    version integer NOT NULL,
    due_at timestamptz
) WITH (fillfactor = 50);

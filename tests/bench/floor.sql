-- What a stage records of a batch: $1 stage, $2 messages, $3 bodies. Returns the messages that were new to the stage.
WITH arrived AS MATERIALIZED (
    SELECT * FROM unnest($2::uuid[], $3::text[]) AS arrived (message, body)
), fresh AS (
    INSERT INTO seen (message, stage)
    SELECT message, $1 FROM arrived
    ON CONFLICT DO NOTHING
    RETURNING message
), known AS (
    INSERT INTO state AS s (message, stage, version, due_at)
    SELECT message, $1, 1, now() + interval '10 seconds' FROM fresh
    ON CONFLICT (message) DO UPDATE
    SET stage = excluded.stage, version = s.version + 1, due_at = excluded.due_at
), handed_on AS (
    INSERT INTO outbox (message, stage, body)
    SELECT a.message, $1, a.body FROM arrived a WHERE a.message IN (SELECT message FROM fresh)
)
SELECT message FROM fresh

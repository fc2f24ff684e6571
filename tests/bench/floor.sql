-- What a stage records of a batch: $1 stage, $2 numbers. Returns the numbers that were new to the stage.
WITH fresh AS (
    INSERT INTO seen (stage, number)
    SELECT $1, number FROM unnest($2::bigint[]) AS arrived (number)
    ON CONFLICT DO NOTHING
    RETURNING number
), step AS (
    INSERT INTO step (number, stage, outcome)
    SELECT number, $1, 'done' FROM fresh
), debt AS (
    INSERT INTO debt AS owed (number, stage, version, due_at)
    SELECT number, $1, 1, now() + interval '10 seconds' FROM fresh
    ON CONFLICT (number) DO UPDATE
    SET stage = excluded.stage, version = owed.version + 1, due_at = excluded.due_at
)
SELECT number FROM fresh

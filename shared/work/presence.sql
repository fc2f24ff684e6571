-- name: register
-- A number for this process; its lock is taken in the same statement, so that it is never seen unheld.
with registered as (insert into worker (stage, host, pid) values ($1, $2, $3) returning number)
select number, pg_try_advisory_lock(4711, number) as held from registered

-- name: hold
-- The lock of a number we had before, over a new connection. Not held: another process found us dead and is clearing up.
select pg_try_advisory_lock(4711, $1::int) as held

-- name: alive
-- Asked of the connection that holds the lock.
select 1

-- name: try_dead
-- Of these workers, the ones whose lock nobody holds: they are dead, and we hold their locks until `let_go`.
select number from unnest($1::int[]) as w (number) where pg_try_advisory_lock(4711, number)

-- name: let_go
-- Give back the locks of the dead once their leases are void.
select pg_advisory_unlock(4711, number) from unnest($1::int[]) as w (number)

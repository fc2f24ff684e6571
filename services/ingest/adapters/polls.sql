-- name: claim
-- P0: bots whose updates nobody fetches just now, for this process. A lease is as old as `looked_at`. $1 how long one holds interval
update channel_account a set looked_at = now()
from (
  select id, business from channel_account
  where channel = 'telegram' and settings::jsonb -> 'polling' = 'true' and (looked_at is null or looked_at < now() - $1::interval)
  order by id for no key update skip locked) due
where a.id = due.id and a.business = due.business
returning a.id, a.address, a.secrets, a.poll_offset, a.looked_at

-- name: renew
-- P1: the lease goes on, if it is still the one that was taken, and fetching is still wanted; what was committed is not asked for again.
-- $1 account int · $2 when the lease was taken timestamptz · $3 offset bigint
update channel_account a set looked_at = now(), poll_offset = $3
where a.id = $1 and a.looked_at = $2 and a.settings::jsonb -> 'polling' = 'true'
returning a.id, a.address, a.secrets, a.poll_offset, a.looked_at

-- name: release
-- P2: another process may fetch at once. $1 account int · $2 when the lease was taken timestamptz
update channel_account a set looked_at = null where a.id = $1 and a.looked_at = $2

-- name: audit_head
-- The head of a business's chain, made where there is none, locked until the commit: entries come one after another. The time is the lock's.
-- $1 business int · $2 the digest before the first entry bytea
insert into audit_head as h (business, n, digest) values ($1, 0, $2) on conflict (business) do update set n = h.n returning n, digest, clock_timestamp() as now

-- name: audit_append
-- The next entry, and the head on it.
-- $1 business int · $2 n bigint · $3 at timestamptz · $4 actor text · $5 action text · $6 subject text · $7 detail text · $8 digest bytea
with entry as (
  insert into audit_log (business, n, at, actor, action, subject, detail, digest) values ($1, $2, $3, $4, $5, $6, $7, $8))
update audit_head set n = $2, digest = $8 where business = $1 and n = $2 - 1 returning n

-- name: audit_chain
-- A business's entries in order with the head of its chain, as one snapshot; one row of nulls where nothing was written.
-- $1 business int
select h.n as head_n, h.digest as head_digest, l.n, l.at, l.actor, l.action, l.subject, l.detail, l.digest
from business b left join audit_head h on h.business = b.id left join audit_log l on l.business = b.id where b.id = $1 order by l.n

-- name: audit_last
-- The latest entries of a business, or of all, oldest first.
-- $1 slug text (null: all) · $2 most int
select * from (
  select b.slug as business, l.n, l.at, l.actor, l.action, l.subject, l.detail from audit_log l join business b on b.id = l.business
  where b.slug = coalesce($1::text, b.slug) order by l.at desc, l.n desc limit $2) x
order by x.at, x.n

-- name: businesses
-- Whose chains there are.
-- $1 slug text (null: all)
select id, slug from business where slug = coalesce($1::text, slug) order by slug

-- name: server
-- What the database is, and what time it has.
select current_setting('server_version_num')::int as version_num, current_setting('server_version') as version, current_user as "user", clock_timestamp() as now

-- name: roles
-- Our two roles: whether they are there, and whether this user may become them.
select r.name, pg_roles.oid is not null as there, coalesce(pg_has_role(pg_roles.oid, 'member'), false) as may
from unnest(array['leeway_pipeline', 'leeway_tenant']) r (name) left join pg_roles on pg_roles.rolname = r.name

-- name: secrets
-- One account's sealed secrets, to try the key on; the newest.
select channel, address, secrets from channel_account where secrets is not null order by id desc limit 1

-- name: accounts
-- Every account, to see what is wrong with it.
select channel, address, state, disabled_why, secrets, settings, extract(epoch from now() - looked_at)::float as looked_ago_s from channel_account order by id

-- name: unsettled
-- How much failed for good and waits for a decision.
select count(*)::int as n from dead where settled_at is null

-- name: connections
-- How many connections the server takes from users like ours, how many it has, and how many of those are Leeway's.
select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - coalesce(current_setting('reserved_connections', true), '0')::int as most,
  count(*)::int as used, count(*) filter (where application_name = 'leeway' and datname = current_database())::int as ours
from pg_stat_activity where backend_type = 'client backend'

-- name: overdue
-- Steps that a service should have taken for so long: how many, and the age of the oldest. What waits by design is not among them.
-- $1 seconds double precision
select 'guard' as stage, count(*)::int as n, extract(epoch from now() - min(guard_due_at))::float as oldest_s
from conversation_state where guard_due_at < now() - $1 * interval '1 s'
union all select 'agent', count(*)::int, extract(epoch from now() - min(due_at))::float
from conversation_state where due_at < now() - $1 * interval '1 s' and state = 'bot' and opted_out_at is null and coalesce(lease_until, '-infinity') < now()
union all select 'dispatch', count(*)::int, extract(epoch from now() - min(ring_at))::float
from outbound where state = 'queued' and ring_at < now() - $1 * interval '1 s'

-- name: waiting
-- What waits for people: how much, the age of the oldest, and which command shows it.
select 'drafts wait for a decision' as what, 'drafts' as command, count(*)::int as n, extract(epoch from business_now() - min(created_at))::float as oldest_s
from outbound where state = 'draft'
union all select 'actions wait for an approval', 'approvals', count(*)::int, extract(epoch from business_now() - min(created_at))::float
from pending_action where state = 'operator' and decision is null
union all select 'conversations wait for people', 'handoffs', count(*)::int, extract(epoch from business_now() - min(opened_at))::float
from handoff where released_at is null

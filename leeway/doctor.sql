-- name: server
-- What the database is, and what time it has.
select current_setting('server_version_num')::int as version_num, current_setting('server_version') as version, current_user as "user",
  current_setting('transaction_read_only')::bool as read_only, clock_timestamp() as now

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

-- name: connections
-- How many connections the server takes from users like ours, how many it has, and how many of those are Leeway's.
select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - coalesce(current_setting('reserved_connections', true), '0')::int as most,
  count(*)::int as used, count(*) filter (where application_name = 'leeway' and datname = current_database())::int as ours
from pg_stat_activity where backend_type = 'client backend'

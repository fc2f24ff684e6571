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
select channel, address, state, disabled_why, secrets, settings from channel_account order by id

-- name: unsettled
-- How much failed for good and waits for a decision.
select count(*)::int as n from dead where settled_at is null

-- name: waiting
-- What waits for people, and which command shows it.
select 'drafts wait for a decision' as what, 'drafts' as command, (select count(*) from outbound where state = 'draft')::int as n
union all select 'actions wait for an approval', 'approvals', (select count(*) from pending_action where state = 'operator' and decision is null)::int
union all select 'conversations wait for people', 'handoffs', (select count(*) from handoff where released_at is null)::int

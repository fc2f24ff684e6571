-- name: create_business
-- A tenant, or the one of that slug that is there already.
-- $1 slug text · $2 name text · $3 mode text · $4 pack text · $5 locales text[] · $6 time zone text · $7 window ms int
insert into business (slug, name, mode, pack, locales, time_zone, window_ms) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (slug) do update set name = business.name returning id

-- name: create_account
-- A channel account, or the one at that address that is there already.
-- $1 business int · $2 channel text · $3 address text · $4 sealed secrets bytea · $5 callback url text
insert into channel_account (business, channel, address, secrets, callback_url) values ($1, $2, $3, $4, $5)
on conflict (channel, address) do update set address = channel_account.address returning id, business

-- name: set_mode
-- A business's mode.
-- $1 business int · $2 mode text
update business set mode = $2 where id = $1

-- name: sealed
-- An account's sealed secrets, and whose it is.
-- $1 channel text · $2 address text
select secrets, business from channel_account where channel = $1 and address = $2

-- name: create_new_business
-- A tenant; none when the slug is taken.
-- $1 slug text · $2 name text · $3 mode text · $4 pack text · $5 locales text[] · $6 time zone text · $7 window ms int
insert into business (slug, name, mode, pack, locales, time_zone, window_ms) values ($1, $2, $3, $4, $5, $6, $7) on conflict (slug) do nothing returning id

-- name: by_slug
-- A tenant's settings.
-- $1 slug text
select id, slug, name, mode, engine, pack, locales, time_zone, window_ms, stale_after_s, rate_per_10_min, takeover_quiet_min, day_cap_usd, turn_cap_usd, conversation_cap_usd, approval_hours,
  handoff_remind_min, handoff_tell_min, quiet_from, quiet_to, reminder_hours, created_at from business where slug = $1

-- name: accounts_of
-- A tenant's channel accounts, without their secrets.
-- $1 business int
select channel, address, state, mode, callback_url from channel_account where business = $1 order by channel, address

-- name: lock_business
-- A tenant as it is, until the change is committed.
-- $1 slug text
select b.id, b.pack, to_jsonb(b) as settings from business b where b.slug = $1 order by b.id for no key update

-- name: change
-- A tenant's settings: those named in the JSON object are set, also to null; the others stay. Returns them as they are then.
-- $1 business int · $2 changes jsonb
update business b
set (name, mode, window_ms, stale_after_s, rate_per_10_min, takeover_quiet_min, day_cap_usd, turn_cap_usd, conversation_cap_usd, approval_hours, handoff_remind_min, handoff_tell_min,
    quiet_from, quiet_to, reminder_hours) =
  (select r.name, r.mode, r.window_ms, r.stale_after_s, r.rate_per_10_min, r.takeover_quiet_min, r.day_cap_usd, r.turn_cap_usd, r.conversation_cap_usd, r.approval_hours, r.handoff_remind_min,
    r.handoff_tell_min, r.quiet_from, r.quiet_to, r.reminder_hours from jsonb_populate_record(b, $2::jsonb) r)
where b.id = $1 returning to_jsonb(b) as settings

-- name: lock_account
-- A channel account's mode, until its change is committed.
-- $1 channel text · $2 address text
select k.id, k.business, k.mode from channel_account k where k.channel = $1 and k.address = $2 order by k.id for no key update

-- name: set_account_mode
-- A channel account's mode; null: the business's.
-- $1 account int · $2 business int · $3 mode text
update channel_account set mode = $3 where id = $1 and business = $2

-- name: lock_conversation
-- A conversation's mode, until its change is committed.
-- $1 conversation uuid
select s.business, s.mode from conversation_state s where s.conversation = $1 order by s.conversation for no key update

-- name: set_conversation_mode
-- A conversation's mode; null: that of its account and business. It changes what is allowed, so the version is raised.
-- $1 conversation uuid · $2 mode text
update conversation_state set mode = $2, version = version + 1 where conversation = $1

-- name: lock_level
-- What a business set for a tool, until its change is committed.
-- $1 business int · $2 tool text
select l.level, l.asked from tool_level l where l.business = $1 and l.tool = $2 order by l.tool for no key update

-- name: set_level
-- A tool's level, and who is asked where it asks; null: as the pack says.
-- $1 business int · $2 tool text · $3 level int · $4 asked text · $5 by text
insert into tool_level (business, tool, level, asked, set_by) values ($1, $2, $3, $4, $5)
on conflict (business, tool) do update set level = excluded.level, asked = excluded.asked, set_at = now(), set_by = excluded.set_by

-- name: reset_level
-- A tool is at the pack's own level again.
-- $1 business int · $2 tool text
delete from tool_level where business = $1 and tool = $2

-- name: levels
-- What a business set for its tools, by whom and when.
-- $1 business int
select tool, level, asked, set_by, set_at from tool_level where business = $1 order by tool

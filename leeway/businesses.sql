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

-- name: create_new_account
-- A channel account; none when the address is taken on that channel.
-- $1 business int · $2 channel text · $3 address text · $4 sealed secrets bytea · $5 callback url text · $6 verifies phones boolean
insert into channel_account (business, channel, address, secrets, callback_url, verifies_phones) values ($1, $2, $3, $4, $5, $6)
on conflict (channel, address) do nothing returning id

-- name: enable_account
-- A channel account that refused credentials had switched off is on again. Its replies go out at once, but for those older than the business's
-- answer limit: nobody is answered at night about yesterday. Returns how many of each, and nothing where no account was off.
-- $1 channel text · $2 address text
with account as (
  update channel_account set state = 'on' where channel = $1 and address = $2 and state = 'disabled' returning id, business),
waiting as materialized (
  select o.id, o.conversation, o.origin_kind <> 'operator' and o.created_at < now() - b.stale_after_s * interval '1 s' as late
  from account a join business b on b.id = a.business join conversation c on c.account = a.id join outbound o on o.conversation = c.id where o.state = 'queued'),
locked as materialized (
  select s.conversation from conversation_state s where s.conversation in (select conversation from waiting) order by s.conversation for no key update of s),
row as (
  update conversation_state s set version = s.version + 1 from locked l where s.conversation = l.conversation returning s.conversation),
reply as (
  update outbound o set state = case when w.late then 'draft' else o.state end, reason = case when w.late then 'late' end, not_before = null,
    ring_at = case when not w.late then now() end
  from waiting w join row on row.conversation = w.conversation where o.id = w.id and o.state = 'queued' returning w.late)
select a.id, (select count(*) from reply where not late)::int as going, (select count(*) from reply where late)::int as late from account a

-- name: by_slug
-- A tenant's settings.
-- $1 slug text
select id, slug, name, mode, engine, pack, locales, time_zone, window_ms, stale_after_s, rate_per_10_min, takeover_quiet_min, day_cap_usd, created_at from business where slug = $1

-- name: accounts_of
-- A tenant's channel accounts, without their secrets.
-- $1 business int
select channel, address, state, mode, callback_url from channel_account where business = $1 order by channel, address

-- name: change
-- A tenant's settings; null leaves one as it is.
-- $1 slug text · $2 mode text · $3 name text · $4 window ms int
update business set mode = coalesce($2, mode), name = coalesce($3, name), window_ms = coalesce($4, window_ms) where slug = $1 returning id

-- name: create_new_account
-- A channel account; none when its address in our URLs, or the provider's for it, is taken on that channel.
-- $1 business int · $2 channel text · $3 address text · $4 sealed secrets bytea · $5 callback url text · $6 verifies phones boolean · $7 carrier takes cancel boolean · $8 provider address text
-- $9 own number text · $10 settings text
insert into channel_account (business, channel, address, secrets, callback_url, verifies_phones, carrier_takes_cancel, provider_address, own_number, settings)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict do nothing returning id

-- name: business_of
-- A tenant by its short name.
-- $1 slug text
select id from business where slug = $1

-- name: taken_by
-- Who has an address in our URLs already, or a provider's address.
-- $1 channel text · $2 address text · $3 provider address text
select address = $2 as by_address from channel_account where channel = $1 and (address = $2 or provider_address = $3) order by address = $2 desc

-- name: renew_account
-- An account with fresh secrets, made where there is none; none when the address is another tenant's.
-- $1 business int · $2 channel text · $3 address text · $4 sealed secrets bytea · $5 provider address text · $6 own number text · $7 settings text
insert into channel_account as k (business, channel, address, secrets, provider_address, own_number, settings) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (channel, address) do update set secrets = excluded.secrets, settings = excluded.settings where k.business = excluded.business
returning id

-- name: named
-- The accounts at an address, of one channel or of any.
-- $1 address text · $2 channel text
select id, business, channel, address from channel_account where address = $1 and ($2::text is null or channel = $2) order by channel

-- name: address
-- An account as its provider is reached.
-- $1 account int
select business, channel, address, callback_url, secrets, settings from channel_account where id = $1

-- name: lock_secrets
-- An account's secrets, until their change is committed.
-- $1 account int
select k.secrets, k.settings from channel_account k where k.id = $1 order by k.id for no key update

-- name: set_secrets
-- $1 account int · $2 business int · $3 sealed secrets bytea
update channel_account set secrets = $3 where id = $1 and business = $2

-- name: disable_account
-- A person switches an account off; what arrives is stored, and its replies wait. None when it is off already.
-- $1 account int · $2 business int · $3 why text
update channel_account set state = 'disabled', disabled_why = $3 where id = $1 and business = $2 and state = 'on' returning id

-- name: overview
-- The accounts of a tenant, or of all, with when they last brought a message and last sent one.
-- $1 slug text
select b.slug as business, k.channel, k.address, k.state, k.disabled_why, k.mode, k.own_number, k.provider_address,
  (select max(s.last_customer_at) from conversation c join conversation_state s on s.conversation = c.id and s.business = c.business where c.account = k.id) as last_message,
  (select max(a.started_at) from send_attempt a where a.account = k.id) as last_send
from channel_account k join business b on b.id = k.business where $1::text is null or b.slug = $1 order by b.slug, k.channel, k.address

-- name: enable_account
-- A channel account that refused credentials or a person had switched off is on again. Its replies go out at once, but for those older than the business's
-- answer limit: nobody is answered at night about yesterday. Returns how many of each, and nothing where no account was off.
-- $1 channel text · $2 address text
with account as (
  update channel_account set state = 'on', disabled_why = null where channel = $1 and address = $2 and state = 'disabled' returning id, business),
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

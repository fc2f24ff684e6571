-- name: accounts
-- I0: the account a URL names, with its business and its sealed secrets.
select a.id, a.business, b.slug, a.channel, a.address, a.state, a.secrets, a.verifies_phones
from channel_account a join business b on b.id = a.business
where a.channel = $1 and a.address = $2

-- name: resolve
-- I0: identities to conversations; unknown ones are made. A verified number belongs to one customer of the business, and of two first
-- messages at once the loser takes the winner's. An identity that another transaction just made is missing here: ask again.
-- $1 accounts int[] · $2 businesses int[] · $3 user ids text[] · $4 customers uuid[] · $5 conversations uuid[] · $6 names text[] · $7 phones text[] · $8 phone keys text[]
with wanted as materialized (
  select * from unnest($1::int[], $2::int[], $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::text[])
    as w (account, business, user_id, customer, conversation, name, phone, phone_key)),
known as materialized (
  select w.account, w.user_id, i.conversation from wanted w join channel_identity i on i.account = w.account and i.user_id = w.user_id),
fresh as materialized (
  select w.* from wanted w where not exists (select from known k where k.account = w.account and k.user_id = w.user_id)),
numbered as (
  insert into customer (id, business, name, phone, phone_key)
  select distinct on (business, phone_key) customer, business, name, phone, phone_key from fresh where phone_key is not null order by business, phone_key
  on conflict (business, phone_key) do update set phone = excluded.phone
  returning id, business, phone_key),
identity as (
  insert into channel_identity (account, business, user_id, customer, conversation)
  select f.account, f.business, f.user_id, coalesce(c.id, f.customer), f.conversation
  from fresh f left join numbered c on c.business = f.business and c.phone_key = f.phone_key
  order by f.account, f.user_id
  on conflict (account, user_id) do nothing
  returning account, business, user_id, customer, conversation),
unnumbered as (
  insert into customer (id, business, name)
  select f.customer, f.business, f.name from fresh f join identity i on i.account = f.account and i.user_id = f.user_id where f.phone_key is null),
conversation as (
  insert into conversation (id, business, account, customer) select conversation, business, account, customer from identity),
state as (
  insert into conversation_state (conversation, business) select conversation, business from identity)
select account, user_id, conversation from known union all select account, user_id, conversation from identity

-- name: store
-- I1: messages and raw payloads in; their conversations owe a guard. Rows are locked before the insert, else two ingests with the same two
-- messages in another order wait for each other in the unique index. Returns the conversations that got something new.
-- $1 ids uuid[] · $2 businesses int[] · $3 conversations uuid[] · $4 accounts int[] · $5 external ids text[] · $6 channel's own ids text[] · $7 threads text[] · $8 kinds text[]
-- $9 bodies text[] · $10 buttons text[] · $11 quoted text[] · $12 locales text[] · $13 auto replies boolean[] · $14 opt words text[] · $15 channel times timestamptz[] · $16 raws bytea[]
with m as materialized (
  select * from unnest($1::uuid[], $2::int[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
    $13::boolean[], $14::text[], $15::timestamptz[], $16::bytea[])
    as m (id, business, conversation, account, external_id, channel_message_id, thread, kind, body, button, quoted, locale, auto_reply, opt_word, channel_at, raw)),
locked as materialized (
  select s.conversation from conversation_state s where s.conversation = any ($3::uuid[]) order by s.conversation for no key update),
fresh as (
  insert into inbound_message (id, business, conversation, account, external_id, channel_message_id, thread, kind, body, button, quoted, locale, auto_reply, opt_word, channel_at)
  select m.id, m.business, m.conversation, m.account, m.external_id, m.channel_message_id, m.thread, m.kind, m.body, m.button, m.quoted, m.locale, m.auto_reply, m.opt_word, m.channel_at
  from m where (select count(*) from locked) >= 0  -- always so: that the rows are locked first, and a conversation that is gone is an error
  on conflict (account, external_id) do nothing
  returning id, conversation),
raw as (
  insert into inbound_payload (message, business, raw) select m.id, m.business, m.raw from m where (m.id in (select id from fresh)) is true)
update conversation_state s
set unguarded = s.unguarded + f.n, version = s.version + 1, guard_due_at = coalesce(s.guard_due_at, now() + interval '2 s')
from (select conversation, count(*)::int as n from fresh group by conversation) f
where s.conversation = f.conversation
returning s.conversation, f.n

-- name: statuses
-- S1: what the channel says became of our sends, by correlation id (the attempt) or provider id. Forward only by rank; a failure only below
-- delivered. A status that is there before the outcome was stored settles the send: the parts that follow are queued. Returns the positions ($1)
-- that met an attempt; the others are held.
-- $1 positions int[] · $2 accounts int[] · $3 correlations uuid[] · $4 provider ids text[] · $5 states text[] · $6 ranks int[] · $7 reasons text[]
with d as materialized (
  select * from unnest($1::int[], $2::int[], $3::uuid[], $4::text[], $5::text[], $6::int[], $7::text[])
    as d (position, account, correlation, provider_id, state, rank, reason)),
met as materialized (
  select d.position, d.state, d.rank, d.reason, a.id, a.conversation from d join send_attempt a on a.id = d.correlation and a.account = d.account
  union
  select d.position, d.state, d.rank, d.reason, a.id, a.conversation from d join send_attempt a on a.account = d.account and a.provider_id = d.provider_id),
best as materialized (
  select distinct on (id) id, conversation, state, rank, reason from met order by id, rank desc),
states as materialized (
  select s.conversation, s.sending_attempt from (select distinct conversation from best) b join conversation_state s on s.conversation = b.conversation
  order by s.conversation for no key update of s),
locked as materialized (  -- all rows are locked before the first is changed: one that was changed in between would be passed over
  select b.*, s.sending_attempt from best b join states s on s.conversation = b.conversation where (select count(*) from states) > 0),
attempt as (
  update send_attempt a set rank = l.rank, state = l.state, reason = coalesce(l.reason, a.reason), settled_at = coalesce(a.settled_at, now())
  from locked l where a.id = l.id and a.rank < l.rank
  returning a.id, a.outbound, a.conversation, a.part, a.state, a.state = 'failed' as failed, (l.sending_attempt = a.id) is true as current),
reply as (
  update outbound o
  set state = case when a.failed then 'draft' when a.part < o.parts then 'queued' else a.state end, reason = case when a.failed then 'send_failed' end,
      sent_at = coalesce(o.sent_at, business_now()), parts_sent = case when a.failed then least(o.parts_sent, a.part - 1) else greatest(o.parts_sent, a.part) end,
      ring_at = case when a.part < o.parts and not a.failed then now() end
  from attempt a
  where o.id = a.outbound and o.state in ('queued', 'sending', 'sent', 'delivered', 'unknown', 'draft') and (a.part = o.parts or a.failed or a.current)
  returning o.id),
row as (
  update conversation_state s set version = s.version + 1, sending_attempt = case when a.current then null else s.sending_attempt end
  from (select conversation, bool_or(current) as current from attempt group by conversation) a where s.conversation = a.conversation)
select distinct position from met

-- name: hold_statuses
-- A status whose send is not known yet is tried again in 5 s.
-- $1 ids uuid[] · $2 businesses int[] · $3 accounts int[] · $4 correlations text[] · $5 provider ids text[] · $6 statuses text[] · $7 reasons text[]
insert into held_status (id, business, account, correlation, provider_id, status, reason, due_at)
select d.*, now() + interval '5 s' from unnest($1::uuid[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[]) as d

-- name: held_due
-- Held statuses to try again, their next time moved on (5 s, 60 s, 10 min) so that two processes do not try the same. Those tried for the last
-- time ten minutes ago are dropped.
with due as materialized (
  select id, tries from held_status where due_at <= now() order by due_at limit 500 for update skip locked),
dropped as (
  delete from held_status h using due where h.id = due.id and due.tries >= 3)
update held_status h set tries = h.tries + 1, due_at = now() + case h.tries when 0 then interval '60 s' else interval '10 min' end
from due where h.id = due.id and due.tries < 3 returning h.id, h.account, h.correlation, h.provider_id, h.status, h.reason

-- name: held_done
-- Those that met their send.
-- $1 ids uuid[]
delete from held_status where id = any ($1::uuid[])

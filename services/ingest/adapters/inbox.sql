-- name: accounts
-- I0: the account a URL names, with its business, its sealed secrets, and the business's accounts on the channel by what payloads name them.
-- $1 channel text · $2 address text
select a.id, a.business, b.slug, a.channel, a.address, a.state, a.secrets, a.verifies_phones, a.settings, a.own_number,
  (select array_agg(row (x.provider_address, x.id)) from channel_account x where x.business = a.business and x.channel = a.channel and x.provider_address is not null) as homes
from channel_account a join business b on b.id = a.business
where a.channel = $1 and a.address = $2

-- name: resolve
-- I0: identities to conversations; unknown ones are made. Who was known by a number before the channel gave them an id is renamed to it, and who
-- states a number alone is found by it. A verified number belongs to one customer of the business, and of two first messages at once the loser
-- takes the winner's. An identity that another transaction just made is missing here: ask again.
-- $1 accounts int[] · $2 businesses int[] · $3 user ids text[] · $4 customers uuid[] · $5 conversations uuid[] · $6 names text[] · $7 phones text[] · $8 phone keys text[]
-- $9 user ids before text[] · $10 reply addresses text[]
with wanted as materialized (
  select * from unnest($1::int[], $2::int[], $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
    as w (account, business, user_id, customer, conversation, name, phone, phone_key, before, reply_to)),
known as materialized (
  select w.account, w.user_id, w.before, w.reply_to, coalesce(i.conversation, b.conversation, r.conversation) as conversation,
    coalesce(i.user_id, b.user_id, r.user_id) as found, i.reply_to as reply_to_now
  from wanted w
    left join channel_identity i on i.account = w.account and i.user_id = w.user_id
    left join channel_identity b on b.account = w.account and b.user_id = w.before and i.user_id is null
    left join lateral (select x.user_id, x.conversation from channel_identity x where x.account = w.account and x.reply_to = w.user_id order by x.created_at desc limit 1) r
      on i.user_id is null and b.user_id is null),
renamed as (
  update channel_identity i set user_id = k.user_id, reply_to = coalesce(k.reply_to, i.reply_to)
  from (select distinct on (account, found) * from known where found = before or (found = user_id and reply_to is distinct from reply_to_now and reply_to is not null) order by account, found) k
  where i.account = k.account and i.user_id = k.found),
fresh as materialized (
  select w.* from wanted w join known k on k.account = w.account and k.user_id = w.user_id where k.conversation is null),
numbered as (
  insert into customer (id, business, name, phone, phone_key)
  select distinct on (business, phone_key) customer, business, name, phone, phone_key from fresh where phone_key is not null order by business, phone_key
  on conflict (business, phone_key) do update set phone = excluded.phone
  returning id, business, phone_key),
identity as (
  insert into channel_identity (account, business, user_id, customer, conversation, reply_to)
  select f.account, f.business, f.user_id, coalesce(c.id, f.customer), f.conversation, f.reply_to
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
select account, user_id, conversation from known where conversation is not null union all select account, user_id, conversation from identity

-- name: store
-- I1: messages and raw payloads in; their conversations owe a guard. Rows are locked before the insert, else two ingests with the same two
-- messages in another order wait for each other in the unique index. Returns the conversations that got something new, with its ids.
-- $1 ids uuid[] · $2 businesses int[] · $3 conversations uuid[] · $4 accounts int[] · $5 external ids text[] · $6 channel's own ids text[] · $7 threads text[] · $8 kinds text[]
-- $9 bodies text[] · $10 buttons text[] · $11 quoted text[] · $12 locales text[] · $13 auto replies boolean[] · $14 opt words text[] · $15 channel times timestamptz[] · $16 raws bytea[] · $17 forwarded boolean[]
with m as materialized (
  select * from unnest($1::uuid[], $2::int[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
    $13::boolean[], $14::text[], $15::timestamptz[], $16::bytea[], $17::boolean[])
    as m (id, business, conversation, account, external_id, channel_message_id, thread, kind, body, button, quoted, locale, auto_reply, opt_word, channel_at, raw, forwarded)),
locked as materialized (
  select s.conversation from conversation_state s where s.conversation = any ($3::uuid[]) order by s.conversation for no key update of s),
fresh as (
  insert into inbound_message (id, business, conversation, account, external_id, channel_message_id, thread, kind, body, button, quoted, locale, auto_reply, opt_word, channel_at, forwarded)
  select m.id, m.business, m.conversation, m.account, m.external_id, m.channel_message_id, m.thread, m.kind, m.body, m.button, m.quoted, m.locale, m.auto_reply, m.opt_word, m.channel_at, m.forwarded
  from m where (select count(*) from locked) >= 0  -- always so: that the rows are locked first, and a conversation that is gone is an error
  on conflict (account, external_id) do nothing
  returning id, conversation),
raw as (
  insert into inbound_payload (message, business, raw) select m.id, m.business, m.raw from m where (m.id in (select id from fresh)) is true),
row as (
  update conversation_state s
  set unguarded = s.unguarded + f.n, version = s.version + 1, guard_due_at = coalesce(s.guard_due_at, now() + interval '2 s')
  from (select conversation, count(*)::int as n, array_agg(id order by id) as messages from fresh group by conversation) f
  where s.conversation = f.conversation
  returning s.conversation, f.messages)
select row.conversation, row.messages from row

-- name: store_full
-- The same for messages that carry more: their parts, and announced changes of id.
-- $1 to $17 as `store` · $18 parts: messages uuid[] · $19 n int[] · $20 kinds text[] · $21 mimes text[] · $22 names text[] · $23 references text[] · $24 fetched boolean[] · $25 words text[]
-- $26 changes: ids uuid[] · $27 messages uuid[] · $28 old user ids text[] · $29 new user ids text[]
with m as materialized (
  select * from unnest($1::uuid[], $2::int[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
    $13::boolean[], $14::text[], $15::timestamptz[], $16::bytea[], $17::boolean[])
    as m (id, business, conversation, account, external_id, channel_message_id, thread, kind, body, button, quoted, locale, auto_reply, opt_word, channel_at, raw, forwarded)),
locked as materialized (
  select s.conversation from conversation_state s where s.conversation = any ($3::uuid[]) order by s.conversation for no key update of s),
fresh as (
  insert into inbound_message (id, business, conversation, account, external_id, channel_message_id, thread, kind, body, button, quoted, locale, auto_reply, opt_word, channel_at, forwarded)
  select m.id, m.business, m.conversation, m.account, m.external_id, m.channel_message_id, m.thread, m.kind, m.body, m.button, m.quoted, m.locale, m.auto_reply, m.opt_word, m.channel_at, m.forwarded
  from m where (select count(*) from locked) >= 0  -- always so: that the rows are locked first, and a conversation that is gone is an error
  on conflict (account, external_id) do nothing
  returning id, conversation),
raw as (
  insert into inbound_payload (message, business, raw) select m.id, m.business, m.raw from m where (m.id in (select id from fresh)) is true),
part as (
  insert into media_part (message, business, n, kind, mime, name, reference, state, due_at, words)
  select p.message, m.business, p.n, p.kind, p.mime, p.name, p.reference, case when p.fetched then 'due' else 'kept' end, case when p.fetched then now() end, p.words
  from unnest($18::uuid[], $19::int[], $20::text[], $21::text[], $22::text[], $23::text[], $24::boolean[], $25::text[])
    as p (message, n, kind, mime, name, reference, fetched, words) join m on m.id = p.message where (m.id in (select id from fresh)) is true),
change as (
  insert into identity_change (id, business, account, old_user_id, new_user_id)
  select c.id, m.business, m.account, c.old_user_id, c.new_user_id
  from unnest($26::uuid[], $27::uuid[], $28::text[], $29::text[]) as c (id, message, old_user_id, new_user_id) join m on m.id = c.message
  on conflict (account, old_user_id, new_user_id) do nothing),
row as (
  update conversation_state s
  set unguarded = s.unguarded + f.n, version = s.version + 1, guard_due_at = coalesce(s.guard_due_at, now() + interval '2 s')
  from (select conversation, count(*)::int as n, array_agg(id order by id) as messages from fresh group by conversation) f
  where s.conversation = f.conversation
  returning s.conversation, f.messages)
select row.conversation, row.messages from row

-- name: prove
-- A person who was known without a number proved one, by a card of their own. They are the customer who has it; where nobody has, it is theirs from
-- now on. Whoever has another number keeps it, and people look. What waited for a yes of the stranger ends. Returns the conversations changed.
-- $1 conversations uuid[] · $2 phones text[] · $3 phone keys text[] · $4 external ids text[]
with p as materialized (
  select distinct on (c.id) p.*, c.business, c.account, c.customer, u.phone_key as has, h.id as holder
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as p (conversation, phone, phone_key, external_id)
    join conversation c on c.id = p.conversation join customer u on u.id = c.customer and u.business = c.business
    left join customer h on h.business = c.business and h.phone_key = p.phone_key
  order by c.id),
locked as materialized (
  select s.conversation from conversation_state s where s.conversation in (select conversation from p where has is distinct from phone_key) order by s.conversation for no key update of s),
row as (
  update conversation_state s set version = s.version + 1 from locked l where s.conversation = l.conversation returning s.conversation),
numbered as (
  update customer u set phone = p.phone, phone_key = p.phone_key from p join row on row.conversation = p.conversation
  where u.id = p.customer and u.business = p.business and p.has is null and p.holder is null),
moved as (
  update conversation c set customer = p.holder from p join row on row.conversation = p.conversation
  where c.id = p.conversation and c.business = p.business and p.has is null and p.holder is not null
  returning c.id, c.business, c.account, c.customer),
identity as (
  update channel_identity i set customer = moved.customer from moved where i.account = moved.account and i.conversation = moved.id),
ended as (
  update pending_action a set state = 'cleared', reason = 'identity_changed', ended_at = now()
  from moved cross join lateral (select y.id from pending_action y where y.conversation = moved.id and y.state in ('customer', 'operator') offset 0) d
  where a.id = d.id returning a.prompt),
unsent as (
  update outbound o set state = 'discarded', ring_at = null from ended where o.id = ended.prompt and o.state || '' in ('queued', 'draft')),
flagged as (
  insert into flag (message, business, conversation, reason)
  select m.id, p.business, p.conversation, 'another_number' from p join inbound_message m on m.account = p.account and m.external_id = p.external_id
  where p.has is not null and p.has <> p.phone_key
  on conflict do nothing)
select conversation from row

-- name: statuses
-- S1: what the channel says became of our sends, by correlation id (the attempt) or provider id. Forward only by rank; a failure only below
-- delivered. A status that is there before the outcome was stored settles the send: the parts that follow are queued. A failure that says more
-- than that is learnt from: the person opted out, the channel's window is closed. Returns the positions ($1) that met an attempt; the others are held.
-- $1 positions int[] · $2 accounts int[] · $3 correlations uuid[] · $4 provider ids text[] · $5 states text[] · $6 ranks int[] · $7 reasons text[] · $8 troubles text[]
-- $9 the channel's times timestamptz[] · $10 billings text[]
with d as materialized (
  select * from unnest($1::int[], $2::int[], $3::uuid[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[], $9::timestamptz[], $10::text[])
    as d (position, account, correlation, provider_id, state, rank, reason, trouble, at, billing)),
met as materialized (
  select d.position, d.provider_id, d.state, d.rank, d.reason, d.trouble, d.at, d.billing, a.id, a.conversation from d join send_attempt a on a.id = d.correlation and a.account = d.account
  union
  select d.position, d.provider_id, d.state, d.rank, d.reason, d.trouble, d.at, d.billing, a.id, a.conversation from d join send_attempt a on a.account = d.account and a.provider_id = d.provider_id),
best as materialized (
  select distinct on (id) id, conversation, provider_id, state, rank, reason, trouble,
    first_value(at) over (partition by id order by rank) as at, max(billing) over (partition by id) as billing  -- the lowest status is the earliest
  from met order by id, rank desc),
states as materialized (
  select s.conversation, s.sending_attempt from (select distinct conversation from best) b join conversation_state s on s.conversation = b.conversation
  order by s.conversation for no key update of s),
locked as materialized (  -- all rows are locked before the first is changed: one that was changed in between would be passed over
  select b.*, s.sending_attempt from best b join states s on s.conversation = b.conversation where (select count(*) from states) > 0),
attempt as (
  update send_attempt a set rank = greatest(a.rank, l.rank), state = case when a.rank < l.rank then l.state else a.state end, reason = case when a.rank < l.rank then coalesce(l.reason, a.reason) else a.reason end,
    settled_at = coalesce(a.settled_at, now()), 
    provider_id = case when a.provider_id is null and (select x.id from send_attempt x where x.account = a.account and x.provider_id = l.provider_id limit 1) is null then l.provider_id else a.provider_id end, taken_at = least(a.taken_at, l.at), billing = coalesce(a.billing, l.billing)
  from locked l, send_attempt b
  where a.id = l.id and b.id = l.id and (b.rank < l.rank or l.at < coalesce(b.taken_at, 'infinity') or (b.billing is null and l.billing is not null))
  returning a.id, a.outbound, a.conversation, a.part, a.started_at, a.state, a.state = 'failed' as failed, l.reason, l.trouble, (l.sending_attempt = a.id) is true as current, b.rank < l.rank as forward),
reply as (
  update outbound o
  set state = case when a.failed and a.trouble = 'opted_out' then 'discarded' when a.failed then 'draft' when a.part < o.parts then 'queued' else a.state end,
      reason = case when a.failed and a.trouble in ('opted_out', 'window_closed') then a.trouble when a.failed then 'send_failed' || coalesce(': ' || a.reason, '') end,
      sent_at = coalesce(o.sent_at, business_now()), parts_sent = case when a.failed then least(o.parts_sent, a.part - 1) else greatest(o.parts_sent, a.part) end,
      ring_at = case when a.part < o.parts and not a.failed then now() end
  from attempt a
  where a.forward and o.id = a.outbound and o.state in ('queued', 'sending', 'sent', 'delivered', 'unknown', 'draft') and (a.part = o.parts or a.failed or a.current
    or (o.parts_sent < a.part and (o.state = 'unknown' or (o.state = 'draft' and o.reason = 'may_have_arrived'))))
    and not (a.failed and exists (select from send_attempt z where z.outbound = o.id and z.part <= a.part and z.started_at > a.started_at))
  returning o.id, o.business, o.conversation, o.basis_seq, o.action, o.state = 'discarded' as discarded, o.receipt),
ended as (
  update pending_action x set state = 'cleared', ended_at = now()
  from reply r cross join lateral (select y.id from pending_action y where y.id = r.action and y.prompt = r.id and y.state || '' = 'customer' offset 0) d
  where r.discarded and x.id = d.id),
flagged as (
  insert into flag (message, business, conversation, reason)
  select m.id, r.business, r.conversation, 'receipt_not_sent' from reply r
    join lateral (select y.id from inbound_message y where y.conversation = r.conversation and y.seq <= r.basis_seq order by y.seq desc limit 1) m on true
  where r.discarded and r.receipt on conflict do nothing),
row as (
  update conversation_state s set version = s.version + 1, sending_attempt = case when a.current then null else s.sending_attempt end,
    opted_out_at = case when a.opted_out then coalesce(s.opted_out_at, business_now()) else s.opted_out_at end,
    due_at = case when a.opted_out then null else s.due_at end, handled_seq = case when a.opted_out then greatest(s.handled_seq, s.customer_seq) else s.handled_seq end,  -- as after a STOP
    window_closed_at = case when a.window_closed then business_now() else s.window_closed_at end
  from (select conversation, bool_or(current) as current, bool_or(failed and trouble is not distinct from 'opted_out') as opted_out, bool_or(failed and trouble is not distinct from 'window_closed') as window_closed
        from attempt where forward group by conversation) a where s.conversation = a.conversation)
select distinct position from met

-- name: hold_statuses
-- A status whose send is not known yet is tried again in 5 s.
-- $1 ids uuid[] · $2 businesses int[] · $3 accounts int[] · $4 correlations text[] · $5 provider ids text[] · $6 statuses text[] · $7 reasons text[] · $8 troubles text[]
-- $9 the channel's times timestamptz[] · $10 billings text[]
insert into held_status (id, business, account, correlation, provider_id, status, reason, trouble, at, billing, due_at)
select d.*, now() + interval '5 s' from unnest($1::uuid[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::timestamptz[], $10::text[]) as d

-- name: held_due
-- Held statuses to try again, their next time moved on (5 s, 60 s, 10 min) so that two processes do not try the same. Those tried for the last
-- time ten minutes ago are dropped.
with due as materialized (
  select id, tries from held_status where due_at <= now() order by due_at limit 500 for update skip locked),
dropped as (
  delete from held_status h using due where h.id = due.id and due.tries >= 3)
update held_status h set tries = h.tries + 1, due_at = now() + case h.tries when 0 then interval '60 s' else interval '10 min' end
from due where h.id = due.id and due.tries < 3 returning h.id, h.account, h.correlation, h.provider_id, h.status, h.reason, h.trouble, h.at, h.billing

-- name: held_done
-- Those that met their send.
-- $1 ids uuid[]
delete from held_status where id = any ($1::uuid[])

-- name: gather
-- G1: all that a conversation is judged on. No lock: the record compares the version. Times are business times: due times are shifted on their
-- way in, and back by the record.
-- $1 conversations uuid[]
select s.conversation, s.business, s.version, s.unguarded, s.guarded_seq, s.customer_seq, s.handled_seq, s.due_at + shift() as due_at, s.window_opened_at + shift() as window_opened_at, s.unanswered_since, s.last_customer_at,
  s.state, s.handoff_epoch, s.opted_out_at, s.mode, s.locale, s.lease_token is not null and s.lease_until > now() as leased, s.edits_wait, i.user_id as sender, k.channel,
  b.slug, b.mode as business_mode, b.locales, b.window_ms, b.stale_after_s, b.rate_per_10_min, b.takeover_quiet_min, b.day_cap_usd,
  k.mode as account_mode, k.state as account_state, k.carrier_takes_cancel, business_now() as now, s.decision_owed is not null as decision_owed,
  (select array_agg(row (m.id, m.kind, m.body, m.channel_at, m.received_at, m.auto_reply, m.opt_word, m.locale, m.channel_message_id, m.quoted,
      m.kind = 'echo' and (
        exists (select from send_attempt a where a.account = m.account and a.provider_id = m.channel_message_id)
        or exists (select from (select x.body, x.state, x.created_at from outbound x where x.conversation = m.conversation order by x.id desc limit 5) o
                   where o.body = m.body and o.state in ('sending', 'unknown', 'sent', 'delivered', 'read') and o.created_at > m.received_at - interval '2 min')))
      order by date_trunc('second', m.channel_at), m.received_at, m.id)
    from inbound_message m where m.conversation = s.conversation and m.seq is null) as unjudged,
  (select array_agg(row (h.body, h.received_at) order by h.seq)
    from (select m.seq, m.body, m.received_at from inbound_message m where m.conversation = s.conversation and m.seq > s.guarded_seq - 12 and m.kind = 'text' order by m.seq desc limit 3) h) as last_said,
  (select array_agg(r.sent_at order by r.sent_at)
    from (select o.sent_at from outbound o where o.conversation = s.conversation order by o.id desc limit 8) r where r.sent_at is not null) as reply_times,
  (select count(*) from (select from inbound_message m where m.conversation = s.conversation and m.seq > s.guarded_seq - 4 * b.rate_per_10_min and m.received_at > business_now() - interval '10 min'
    and m.kind not in ('echo', 'system', 'group', 'reaction', 'edit', 'deletion')) r) as recent,
  (select m.channel_at from inbound_message m where m.conversation = s.conversation and m.seq <= s.handled_seq and m.verdict = 'turn' order by m.seq desc limit 1) as newest_answered_at,
  (select row (a.id, a.state) from pending_action a where a.conversation = s.conversation and a.state in ('customer', 'operator')) as action,
  (select array_agg(o.id) from outbound o where o.conversation = s.conversation and o.state = 'draft' and o.origin_kind <> 'operator' and not o.receipt
      -- a question that may have arrived can be answered
      and (o.reason is distinct from 'may_have_arrived' or not exists (select from pending_action a where a.conversation = o.conversation and a.prompt = o.id and a.state = 'customer'))) as drafts,
  -- by what an account is called, by its number however a channel writes that, and on its own channel by what payloads name it
  exists (select from channel_account x where x.business = s.business and (x.address in (i.user_id, i.reply_to)
    or x.own_number in ('+' || ltrim(replace(i.user_id, 'whatsapp:', ''), '+'), '+' || ltrim(replace(i.reply_to, 'whatsapp:', ''), '+'))
    or (x.channel = k.channel and x.provider_address in (i.user_id, i.reply_to, replace(i.user_id, 'whatsapp:', ''), replace(i.reply_to, 'whatsapp:', ''))))) as own_address,
  case when s.state = 'handoff' then (select h.reason from handoff h where h.conversation = s.conversation and h.epoch = s.handoff_epoch) end as handoff_reason,
  case when s.state = 'handoff' then (select m.received_at from inbound_message m where m.conversation = s.conversation and m.seq > s.guarded_seq - 200 and m.reason = 'owner_takeover' order by m.seq desc limit 1) end as owner_spoke_at,
  case when b.day_cap_usd is not null then coalesce(
    (select x.used_usd from budget x where x.business = b.id and x.day = (business_now() at time zone b.time_zone)::date),
    (select coalesce(sum(coalesce(c.cost_usd, c.reserved_usd, 0)), 0) from llm_call c
     where c.business = b.id and c.started_at >= (date_trunc('day', business_now() at time zone b.time_zone) at time zone b.time_zone) - shift())) end as spent_usd
from unnest($1::uuid[]) q (conversation)
  join conversation_state s on s.conversation = q.conversation
  join business b on b.id = s.business
  join channel_identity i on i.conversation = s.conversation
  join channel_account k on k.id = i.account and k.business = s.business
where s.unguarded > 0

-- name: concerned
-- G1 for conversations with an edit or a deletion that is not judged, or one that waits for its original: what they are about, among the last
-- two hundred messages, with earlier edits of the same; what waits; what no turn has taken; and where the pending action came from, unless
-- its effect outside the record was called for. Read after `gather`: the record compares the version that was seen there.
-- $1 conversations uuid[]
select s.conversation,
  (select array_agg(row (m.id, m.kind, m.body, m.channel_at, m.received_at, m.auto_reply, m.opt_word, m.channel_message_id, m.quoted, m.deleted_at is not null, m.seq, m.verdict) order by m.seq)
    from inbound_message m where m.conversation = s.conversation and m.seq > s.guarded_seq - 200
      and (case when m.kind in ('edit', 'deletion') then m.quoted else m.channel_message_id end)
        in (select e.quoted from inbound_message e where e.conversation = s.conversation and e.seq is null and e.kind in ('edit', 'deletion'))) as known,
  case when s.edits_wait then (
    select array_agg(row (m.id, m.kind, m.body, m.channel_at, m.received_at, m.auto_reply, m.opt_word, m.channel_message_id, m.quoted, m.deleted_at is not null) order by m.seq)
    from inbound_message m where m.conversation = s.conversation and m.seq > s.guarded_seq - 200 and m.kind in ('edit', 'deletion')
      and not exists (select from inbound_message o where o.conversation = s.conversation and o.seq > s.guarded_seq - 200
        and o.channel_message_id = m.quoted and o.kind not in ('edit', 'deletion'))) end as waiting,
  (select array_agg(m.seq) from inbound_message m where m.conversation = s.conversation and m.seq > s.handled_seq and m.verdict = 'turn') as unanswered,
  (select row (t.seq_from, t.seq_to) from pending_action a join turn t on t.id = a.turn
    where a.conversation = s.conversation and a.state in ('customer', 'operator') and coalesce(a.executing_since, 'infinity') = 'infinity') as action_from
from unnest($1::uuid[]) q (conversation) join conversation_state s on s.conversation = q.conversation

-- name: record
-- G2, the plain form: sequence given, count subtracted, the agent owed. Compared with the version seen; a conversation missing from the
-- result changed meanwhile and is gathered again. Values are decided by the worker on the version it saw.
-- $1 conversations uuid[] · $2 versions seen bigint[] · $3 judged int[] · $4 guarded seq bigint[] · $5 customer seq bigint[] · $6 handled seq bigint[] · $7 due timestamptz[]
-- $8 window opened timestamptz[] · $9 unanswered since timestamptz[] · $10 last customer timestamptz[] · $11 locales text[]
-- $12 messages uuid[] · $13 their conversations uuid[] · $14 seqs bigint[] · $15 verdicts text[] · $16 reasons text[]
with locked as materialized (
  select d.* from unnest($1::uuid[], $2::bigint[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::text[])
    as d (conversation, seen, k, guarded_seq, customer_seq, handled_seq, due_at, window_opened_at, unanswered_since, last_customer_at, locale)
    join conversation_state s on s.conversation = d.conversation
  where s.version = d.seen order by s.conversation for no key update of s),
row as (
  update conversation_state s
  set unguarded = s.unguarded - d.k, guarded_seq = d.guarded_seq, customer_seq = d.customer_seq, handled_seq = d.handled_seq, version = s.version + 1,
      guard_due_at = case when s.unguarded > d.k then now() end, guard_attempts = 0,
      due_at = d.due_at - shift(), window_opened_at = d.window_opened_at - shift(), unanswered_since = d.unanswered_since, last_customer_at = d.last_customer_at, locale = d.locale
  from locked d where s.conversation = d.conversation
  returning s.conversation),
judged as (
  update inbound_message m set seq = v.seq, verdict = v.verdict, reason = v.reason
  from unnest($12::uuid[], $13::uuid[], $14::bigint[], $15::text[], $16::text[]) as v (id, conversation, seq, verdict, reason)
  where m.id = v.id and (v.conversation in (select conversation from row)) is true)
select conversation from row

-- name: record_full
-- G2 with consequences: handoff, consent, notices, flags, edits; what the customer had not confirmed and drafts the customer answered past are ended.
-- A message that was judged before is among the messages where an edit or a deletion changes it: with its own seq, and no verdict where that stays.
-- $1 to $16 as `record` · $17 states text[] · $18 epochs int[] · $19 opted out timestamptz[] · $20 handoff reasons text[] (null: none opened) · $21 released boolean[]
-- $22 action ended as text[] (null: left) · $23 drafts superseded uuid[] · $24 their conversations uuid[]
-- $25 notices uuid[] · $26 conversations uuid[] · $27 origins uuid[] · $28 texts text[] · $29 flagged messages uuid[] · $30 conversations uuid[] · $31 flag reasons text[]
-- $32 actions ended because text[] · $33 whether an edit waits boolean[] · of each message, where it changes: $34 kinds text[] · $35 bodies text[] · $36 edited timestamptz[] · $37 edited to text[] · $38 deleted timestamptz[]
-- $39 of each notice: when what it answers was received timestamptz[]
with d as materialized (
  select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::text[],
      $17::text[], $18::int[], $19::timestamptz[], $20::text[], $21::boolean[], $22::text[], $32::text[], $33::boolean[])
    as d (conversation, seen, k, guarded_seq, customer_seq, handled_seq, due_at, window_opened_at, unanswered_since, last_customer_at, locale,
      state, epoch, opted_out_at, handoff_reason, released, action_ends, action_because, edits_wait)),
locked as materialized (
  select d.* from d join conversation_state s on s.conversation = d.conversation where s.version = d.seen order by s.conversation for no key update of s),
row as (
  update conversation_state s
  set unguarded = s.unguarded - d.k, guarded_seq = d.guarded_seq, customer_seq = d.customer_seq, handled_seq = d.handled_seq, version = s.version + 1,
      guard_due_at = case when s.unguarded > d.k then now() end, guard_attempts = 0,
      due_at = d.due_at - shift(), window_opened_at = d.window_opened_at - shift(), unanswered_since = d.unanswered_since, last_customer_at = d.last_customer_at, locale = d.locale,
      state = d.state, handoff_epoch = d.epoch, opted_out_at = d.opted_out_at, edits_wait = d.edits_wait, released_at = case when d.released then business_now() else s.released_at end
  from locked d where s.conversation = d.conversation
  returning s.conversation, s.business, d.guarded_seq, d.epoch, d.handoff_reason, d.released, d.action_ends, d.action_because),
judged as (
  update inbound_message m
  set seq = v.seq, verdict = coalesce(v.verdict, m.verdict), reason = case when v.verdict is null then m.reason else v.reason end, kind = coalesce(v.kind, m.kind),
    body = coalesce(v.body, m.body), edited_at = coalesce(v.edited_at, m.edited_at), edited_to = case when v.body is null then coalesce(v.edited_to, m.edited_to) end, deleted_at = coalesce(m.deleted_at, v.deleted_at)
  from unnest($12::uuid[], $13::uuid[], $14::bigint[], $15::text[], $16::text[], $34::text[], $35::text[], $36::timestamptz[], $37::text[], $38::timestamptz[])
    as v (id, conversation, seq, verdict, reason, kind, body, edited_at, edited_to, deleted_at)
  where m.id = v.id and (v.conversation in (select conversation from row)) is true
  returning m.id, v.deleted_at),
forgotten as (
  update inbound_payload p set raw = '' from judged where p.message = judged.id and judged.deleted_at is not null),
released as (
  update handoff h set released_at = business_now() from row where row.released and h.conversation = row.conversation and coalesce(h.released_at, 'infinity') = 'infinity' and h.epoch < row.epoch),
handed as (
  insert into handoff (conversation, business, epoch, reason) select conversation, business, epoch, handoff_reason from row where handoff_reason is not null
  on conflict do nothing),
superseded as materialized (
  select v.id from unnest($23::uuid[], $24::uuid[]) as v (id, conversation) where (v.conversation in (select conversation from row)) is true),
ended as (
  update pending_action a
  set state = coalesce(row.action_ends, 'superseded'), reason = coalesce(row.action_because, a.reason), ended_at = now()
  from row cross join lateral (select y.id, y.state from pending_action y where y.conversation = row.conversation and y.state in ('customer', 'operator') offset 0) d
  where a.id = d.id and (row.action_ends is not null or (d.state = 'customer' and a.prompt in (select id from superseded)) is true)
  returning a.prompt),
ends as materialized (
  select id, 'superseded' as next from superseded
  union all select prompt, 'discarded' from ended where (prompt in (select id from superseded)) is not true),
replies as (
  update outbound o set state = ends.next, ring_at = null
  from ends where o.id = ends.id and (o.state || '' = 'draft' or (o.state || '' = 'queued' and ends.next = 'discarded'))),
notices as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, ring_at, asked_at)
  select n.id, row.business, row.conversation, 'notice', n.origin, row.guarded_seq, row.epoch, 'auto', n.body, now() + interval '2 s', n.asked_at
  from unnest($25::uuid[], $26::uuid[], $27::uuid[], $28::text[], $39::timestamptz[]) as n (id, conversation, origin, body, asked_at) join row on row.conversation = n.conversation
  on conflict (origin, part, origin_kind) do nothing),
flags as (
  insert into flag (message, business, conversation, reason)
  select f.message, row.business, row.conversation, f.reason
  from unnest($29::uuid[], $30::uuid[], $31::text[]) as f (message, conversation, reason) join row on row.conversation = f.conversation
  on conflict do nothing)
select conversation from row

-- name: count
-- One more attempt on a suspect ticket, counted before it is touched. $1 conversation uuid
update conversation_state set guard_attempts = guard_attempts + 1 where conversation = $1 and unguarded > 0 returning guard_attempts

-- name: give_up
-- Five attempts ended badly: the messages are stored unjudged no longer, people take over, and the work lies among the dead.
-- $1 conversation uuid · $2 dead id uuid · $3 notice id uuid · $4 notice text
with row as (
  update conversation_state s
  set guarded_seq = s.guarded_seq + s.unguarded, customer_seq = s.guarded_seq + s.unguarded, handled_seq = s.guarded_seq + s.unguarded, unguarded = 0, guard_due_at = null, due_at = null,
      guard_attempts = 0, version = s.version + 1, state = 'handoff', handoff_epoch = s.handoff_epoch + 1
  where s.conversation = $1 and s.unguarded > 0
  returning s.*),
unjudged as materialized (
  select m.id, row_number() over (order by date_trunc('second', m.channel_at), m.received_at, m.id) as nth from inbound_message m where m.conversation = $1 and m.seq is null),
judged as (
  update inbound_message m set seq = row.guarded_seq - (select count(*) from unjudged) + u.nth, verdict = 'handoff', reason = 'processing_failed'
  from row, unjudged u where m.id = u.id),
handed as (
  insert into handoff (conversation, business, epoch, reason) select conversation, business, handoff_epoch, 'processing_failed' from row),
ended as (
  update pending_action a set state = 'cleared', reason = 'processing_failed', ended_at = now() from row where a.conversation = row.conversation and a.state = 'customer' returning a.prompt),
unsent as (
  update outbound o set state = 'discarded', ring_at = null from ended where o.id = ended.prompt and o.state in ('queued', 'draft')),
buried as (
  insert into dead (id, business, stage, conversation, subject, reason) select $2, business, 'guard', conversation, conversation, 'the guard failed on it five times' from row
  on conflict (stage, subject) do update set settled_at = null, died_at = now(), reason = excluded.reason),
notice as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, ring_at)
  select $3, business, conversation, 'notice', $2, guarded_seq, handoff_epoch, 'auto', $4, now() + interval '2 s' from row)
select conversation, business from row

-- name: anything_due
-- The sweeper's cheap look.
select exists (select from conversation_state where guard_due_at <= now() limit 1) as due

-- name: ring_due
-- W1: conversations whose guard is due, their ring time moved on.
-- $1 most int
with due as materialized (
  select conversation from conversation_state where guard_due_at <= now() order by guard_due_at limit $1 for no key update skip locked)
update conversation_state s set guard_due_at = now() + interval '10 s' from due where s.conversation = due.conversation returning s.conversation

-- name: locale_of
-- For the one notice of a conversation given up: its own locale, else the business's first. $1 conversation uuid
select coalesce(s.locale, b.locales[1]) as locale from conversation_state s join business b on b.id = s.business where s.conversation = $1

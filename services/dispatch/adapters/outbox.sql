-- name: claim_plain
-- D1 and D2 in one for the plain send: mode auto, nobody took over, nothing newer, one part. What is not plain is missing from the result and
-- goes through `gather` and `record`. No version is compared, so the outbound is locked as well as the row, else it would go out twice.
-- Where the channel has a window ($5), only who wrote within $6 is answered here. Where it has a pace, an account's sends are as many as its burst
-- leaves: its time in `account_rate` is how far they have used it up.
-- $1 outbounds uuid[] · $2 attempts uuid[] · $3 worker int · $4 characters that fit into one part int · $5 channels that may have a window text[] · $6 how long interval
-- $7 channels with a pace text[] · $8 from one send of an account to the next interval[] · $9 how many at once int[] · $10 from one send to somebody to the next interval[]
with locked as materialized (
  select q.outbound, q.attempt, o.conversation, o.business, o.body, o.buttons, o.round, o.basis_seq, o.action, business_now() - o.created_at as waited, i.user_id, i.reply_to, c.account, k.channel, r.next_at
  from unnest($1::uuid[], $2::uuid[]) as q (outbound, attempt) join outbound o on o.id = q.outbound
    join conversation_state s on s.conversation = o.conversation join conversation c on c.id = o.conversation
    join channel_identity i on i.conversation = o.conversation
    join channel_account k on k.id = c.account and k.business = o.business join business b on b.id = o.business
    left join account_rate r on r.account = k.id and r.business = k.business
  where s.unguarded = 0 and s.sending_attempt is null and s.state = 'bot' and s.opted_out_at is null and coalesce(s.mode, 'auto') = 'auto' and s.handoff_epoch = o.epoch
    and s.customer_seq <= o.basis_seq and k.state = 'on' and coalesce(k.mode, 'auto') = 'auto' and b.mode = 'auto' and coalesce(r.wait_until, '-infinity') <= now() and coalesce(s.pair_wait_until, '-infinity') <= now()
    and (k.channel <> all ($5::text[]) or (s.last_customer_at > business_now() - $6::interval and coalesce(s.window_closed_at < s.last_customer_at, true)))
    and o.mode = 'auto' and o.held is null and o.origin_kind = 'turn' and o.parts_sent = 0 and o.first_try_at is null and o.round = 1 and length(o.body) <= $4 and o.state || '' = 'queued'
    and o.id = (select e.id from outbound e where e.conversation = o.conversation and e.state = 'queued' and (e.origin_kind <> 'reminder' or coalesce(e.not_before, '-infinity') <= now())
      order by e.basis_seq, e.id limit 1)
  order by s.conversation for no key update of s, o),
paced as (
  select l.*, p.per_account, p.burst, p.per_person, row_number() over (partition by l.account order by l.outbound) as n
  from locked l left join unnest($7::text[], $8::interval[], $9::int[], $10::interval[]) as p (channel, per_account, burst, per_person) on p.channel = l.channel),
row as (
  update conversation_state s set version = s.version + 1, sending_attempt = d.attempt, superseded_in_row = 0, unanswered_since = null,
    pair_wait_until = case when d.per_person > interval '0' then now() + d.per_person else s.pair_wait_until end
  from paced d where s.conversation = d.conversation and (d.per_account is null or greatest(d.next_at, now()) + (d.n - d.burst) * d.per_account <= now())
  returning s.guarded_seq, d.*),
o as (
  update outbound o set state = 'sending', ring_at = null, first_try_at = now() from row where o.id = row.outbound),
a as (
  insert into send_attempt (id, business, conversation, outbound, part, account, at_send_seq, worker)
  select attempt, business, conversation, outbound, 1, account, guarded_seq, $3 from row),
rate as (
  insert into account_rate as x (account, business, sent, next_at)
  select account, business, count(*), now() + count(*) * nullif(max(per_account), interval '0') from row group by account, business order by account
  on conflict (account, business) do update set sent = x.sent + excluded.sent,
    next_at = case when excluded.next_at is null then x.next_at else greatest(x.next_at, now()) + (excluded.next_at - now()) end)
select row.outbound, row.attempt, row.conversation, row.account, row.channel, row.user_id, row.reply_to, row.body, row.buttons, row.round, row.waited, m.thread, m.channel_message_id as in_reply_to
from row left join lateral (select x.thread, x.channel_message_id from inbound_message x where x.conversation = row.conversation and x.seq <= row.basis_seq and x.kind <> 'echo' order by x.seq desc limit 1) m on true

-- name: gather
-- D1: what a send is decided on. No lock: the record compares the version.
-- $1 outbounds uuid[]
select o.id as outbound, o.conversation, o.business, o.origin_kind, o.basis_seq, o.epoch, o.mode as mode_at_decision, o.held, o.body, o.buttons, o.round, o.receipt, o.action, o.parts_sent, o.first_try_at, o.not_before,
  case when o.round = 1 then business_now() - greatest(o.created_at, o.not_before + shift()) end as waited,
  s.version, s.unguarded, s.state, s.handoff_epoch, s.opted_out_at is not null as opted_out, s.mode, s.sending_attempt, s.superseded_in_row, s.unanswered_since,
  case when s.customer_seq > o.basis_seq and (select bool_and(x.kind = 'button') from inbound_message x where x.conversation = o.conversation and x.seq > o.basis_seq and x.verdict || '' <> 'stored')
    then o.basis_seq else s.customer_seq end as customer_seq,  -- a press is answered by itself: its turn asks no model, so it would not see what gave way to it
  s.pair_wait_until, s.last_customer_at, s.window_closed_at,
  b.mode as business_mode, k.mode as account_mode, k.state as account_state, k.channel, k.settings, c.account, i.user_id, i.reply_to, r.wait_until, r.next_at, now() as now, business_now() as business_now, b.time_zone, b.quiet_from, b.quiet_to,
  o.id = (select e.id from outbound e where e.conversation = o.conversation and e.state = 'queued'
    and (e.id = o.id or e.origin_kind <> 'reminder' or coalesce(e.not_before, '-infinity') <= now())  -- one that waits for quiet hours holds up nobody
    order by e.basis_seq, e.id limit 1) as first_in_line,
  (select count(*) from send_attempt a where a.outbound = o.id) as tries,
  exists (select from send_attempt a where a.outbound = o.id and a.state not in ('throttled', 'refused', 'failed', 'given_back')) as may_have_left,
  m.thread, m.channel_message_id as in_reply_to
from unnest($1::uuid[]) q (id) join outbound o on o.id = q.id join conversation_state s on s.conversation = o.conversation join conversation c on c.id = o.conversation
  join channel_identity i on i.conversation = o.conversation join channel_account k on k.id = c.account and k.business = o.business join business b on b.id = o.business
  left join account_rate r on r.account = k.id and r.business = k.business
  left join lateral (select x.thread, x.channel_message_id from inbound_message x where x.conversation = o.conversation and x.seq <= o.basis_seq and x.kind <> 'echo' order by x.seq desc limit 1) m on true
where o.state || '' = 'queued'

-- name: record
-- D2: the claim of a send, or what became of it instead. The version is compared, so whatever changed since `gather` makes it fail.
-- A prompt that ends takes its action with it; a new draft supersedes older ones. Returns the outbounds recorded.
-- $1 outbounds uuid[] · $2 conversations uuid[] · $3 versions seen bigint[] · $4 next states text[] · $5 reasons text[] · $6 not before timestamptz[] · $7 attempts uuid[] · $8 part int[] · $9 parts int[] · $10 accounts int[] · $11 worker int
-- $12 by template boolean[] · $13 from one send of the account to the next interval[] · $14 from one send to this person to the next interval[] (null: no pace)
with locked as materialized (
  select d.*, s.business from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::timestamptz[], $7::uuid[], $8::int[], $9::int[], $10::int[], $12::boolean[], $13::interval[], $14::interval[])
    as d (outbound, conversation, seen, next, reason, not_before, attempt, part, parts, account, by_template, per_account, per_person) join conversation_state s on s.conversation = d.conversation
  where s.version = d.seen order by s.conversation for no key update of s),
row as (
  update conversation_state s
  set version = s.version + 1, sending_attempt = case d.next when 'sending' then d.attempt else s.sending_attempt end,
      superseded_in_row = case d.next when 'superseded' then s.superseded_in_row + 1 when 'sending' then 0 else s.superseded_in_row end,
      unanswered_since = case when d.next in ('sending', 'draft') and s.customer_seq <= (select o.basis_seq from outbound o where o.id = d.outbound) then null else s.unanswered_since end,
      pair_wait_until = case when d.next = 'sending' then coalesce(now() + d.per_person, s.pair_wait_until) else s.pair_wait_until end
  from locked d where s.conversation = d.conversation
  returning s.guarded_seq, d.*),
o as (
  update outbound o set state = row.next, reason = row.reason, not_before = row.not_before, ring_at = case row.next when 'queued' then coalesce(row.not_before, now() + interval '1 s') end,
    parts = greatest(row.parts, 1), first_try_at = case row.next when 'sending' then coalesce(o.first_try_at, now()) else o.first_try_at end
  from row where o.id = row.outbound
  returning o.id, o.conversation, o.action, o.state),
older as (
  update outbound x set state = 'superseded'
  from row cross join lateral (select y.id from outbound y where y.conversation = row.conversation and y.state = 'draft' offset 0) d
  where row.next = 'draft' and x.id = d.id and x.id <> row.outbound and not x.receipt and x.origin_kind <> 'operator'
  returning x.id, x.conversation),
ended as (
  update pending_action a set state = case when o.state = 'superseded' then 'superseded' else 'cleared' end, ended_at = now()
  from o where o.state in ('superseded', 'discarded') and a.id = o.action and a.prompt = o.id and a.state || '' = 'customer'),
ended_older as (
  update pending_action a set state = 'superseded', ended_at = now()
  from older cross join lateral (select y.id from pending_action y where y.conversation = older.conversation and y.prompt = older.id and y.state = 'customer' offset 0) d
  where a.id = d.id),
a as (
  insert into send_attempt (id, business, conversation, outbound, part, account, at_send_seq, worker, by_template)
  select attempt, business, conversation, outbound, part, account, guarded_seq, $11, by_template from row where next = 'sending'),
rate as (
  insert into account_rate as x (account, business, sent, next_at)
  select account, business, count(*), now() + sum(per_account) from row where next = 'sending' group by account, business order by account
  on conflict (account, business) do update set sent = x.sent + excluded.sent,
    next_at = case when excluded.next_at is null then x.next_at else greatest(x.next_at, now()) + (excluded.next_at - now()) end),
flagged as (
  insert into flag (message, business, conversation, reason)
  select m.id, row.business, row.conversation, 'receipt_not_sent' from row join outbound x on x.id = row.outbound and x.receipt
    join lateral (select y.id from inbound_message y where y.conversation = row.conversation and y.seq <= x.basis_seq order by y.seq desc limit 1) m on true
  where row.next = 'discarded'
  on conflict do nothing)
select row.outbound, row.next from row

-- name: settle
-- D3: what came of attempts, forward only; the next part's attempt or a free conversation; returns each conversation's next queued outbound.
-- A success counts however late it comes; anything else only of the attempt that is under way, or that nobody knew about: a worker that was
-- stopped for a minute must not take back what another has sent meanwhile. Again with the same arguments changes nothing.
-- $1 attempts uuid[] · $2 conversations uuid[] · $3 outbounds uuid[] · $4 attempt states text[] · $5 ranks int[] · $6 provider ids text[] · $7 reasons text[] · $8 part int[] · $9 next attempts uuid[] (null: last part)
-- An outcome that says more than that is learnt from: the person opted out, the channel's window is closed, this person is to wait.
-- $10 outbound's next state text[] (null: unchanged) · $11 retry after interval[] (null: none) · $12 worker int · $13 a retry is given up after interval · $14 what it becomes then text[]
-- $15 the channel's times timestamptz[] · $16 segments int[] · $17 opted out boolean[] · $18 window closed boolean[] · $19 the person waits interval[] (null: no more than before)
-- $20 from one send of the account to the next interval[] (null: no pace)
with settled as materialized (
  select d.*, s.guarded_seq, s.sending_attempt is not distinct from d.attempt as current, b.state as before, o.first_try_at < now() - $13::interval and d.next_state = 'queued' as over,
    case when d.rank > 0 and o.parts_sent = 0 and o.round = 1 then business_now() - o.asked_at end as answered_after
  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int[], $6::text[], $7::text[], $8::int[], $9::uuid[], $10::text[], $11::interval[], $14::text[],
      $15::timestamptz[], $16::int[], $17::boolean[], $18::boolean[], $19::interval[], $20::interval[])
    as d (attempt, conversation, outbound, state, rank, provider_id, reason, part, next_attempt, next_state, retry_after, gives_up_as, taken_at, segments, opted_out, window_closed, person_waits, per_account) join conversation_state s on s.conversation = d.conversation
    join send_attempt b on b.id = d.attempt and b.business = s.business join outbound o on o.id = d.outbound and o.business = s.business
  order by s.conversation for no key update of s),
a as (
  update send_attempt a set state = case when a.rank >= d.rank and a.rank > 0 then a.state when d.over and d.gives_up_as = 'unknown' then 'unknown' else d.state end,
    rank = greatest(a.rank, d.rank), provider_id = coalesce(a.provider_id, d.provider_id), reason = d.reason, settled_at = coalesce(a.settled_at, now()),
    taken_at = least(a.taken_at, d.taken_at), segments = coalesce(a.segments, d.segments)
  from settled d where a.id = d.attempt and (a.settled_at is null or a.provider_id is null or d.taken_at < a.taken_at or (a.segments is null and d.segments is not null))
  returning a.id, a.business, a.account, a.rank),
row as (
  update conversation_state s set sending_attempt = case when d.current then d.next_attempt else s.sending_attempt end, version = s.version + 1,
    opted_out_at = case when d.opted_out then coalesce(s.opted_out_at, business_now()) else s.opted_out_at end,
    due_at = case when d.opted_out then null else s.due_at end, handled_seq = case when d.opted_out then greatest(s.handled_seq, s.customer_seq) else s.handled_seq end,  -- as after a STOP
    window_closed_at = case when d.window_closed then business_now() else s.window_closed_at end,
    pair_wait_until = case when d.person_waits is null then s.pair_wait_until else greatest(s.pair_wait_until, now() + d.person_waits) end
  from settled d where s.conversation = d.conversation and (d.current
    or ((d.opted_out or d.window_closed or d.person_waits is not null) and d.before <> d.state and not exists (select from settled e where e.conversation = d.conversation and e.current)))),
o as (
  update outbound o
  set state = case when d.next_state is null and o.state in ('unknown', 'draft') then 'queued' when d.next_state is null or (o.state in ('delivered', 'read') and d.rank > 0) then o.state when d.over then d.gives_up_as else d.next_state end,
      reason = case when d.next_state in ('draft', 'queued', 'unknown') then coalesce(d.reason, o.reason) when d.next_state = 'discarded' then 'opted_out' else o.reason end,
      parts_sent = case when d.rank > 0 then greatest(o.parts_sent, d.part) else o.parts_sent end,
      sent_at = case when d.rank > 0 then coalesce(o.sent_at, business_now()) else o.sent_at end,
      not_before = case when d.next_state = 'queued' then now() + d.retry_after end,
      ring_at = case when d.next_state = 'queued' then now() + d.retry_after when d.next_state is null and o.state in ('unknown', 'draft') then now() when d.next_state is null then o.ring_at end
  from settled d
  where o.id = d.outbound and case
    when d.rank > 0 then o.state in ('queued', 'sending', 'unknown', 'sent', 'delivered', 'read') or (o.state = 'draft' and o.reason = 'may_have_arrived')
    else (o.state = 'sending' and d.current) or (o.state = 'unknown' and d.before = 'unknown') end
  returning o.id, o.business, o.conversation, o.action, o.basis_seq, o.receipt, o.state),
ended as (
  update pending_action x set state = 'cleared', ended_at = now()
  from o where o.state = 'discarded' and x.id = o.action and x.prompt = o.id and x.state || '' = 'customer'),
flagged as (
  insert into flag (message, business, conversation, reason)
  select m.id, o.business, o.conversation, 'receipt_not_sent'
  from o join lateral (select y.id from inbound_message y where y.conversation = o.conversation and y.seq <= o.basis_seq order by y.seq desc limit 1) m on true
  where o.state = 'discarded' and o.receipt
  on conflict do nothing),
next_part as (
  insert into send_attempt (id, business, conversation, outbound, part, account, at_send_seq, worker)
  select d.next_attempt, a.business, d.conversation, d.outbound, d.part + 1, a.account, d.guarded_seq, $12
  from settled d join a on a.id = d.attempt where d.current and d.next_attempt is not null
  on conflict do nothing
  returning id, business, account),
rate as (
  insert into account_rate as x (account, business, sent, next_at)
  select n.account, n.business, count(*), now() + sum(d.per_account) from next_part n join settled d on d.next_attempt = n.id group by n.account, n.business order by n.account
  on conflict (account, business) do update set sent = x.sent + excluded.sent,
    next_at = case when excluded.next_at is null then x.next_at else greatest(x.next_at, now()) + (excluded.next_at - now()) end)
select d.attempt, d.current, d.answered_after,
  (select n.id from outbound n where n.conversation = d.conversation and n.state = 'queued' and n.id <> d.outbound order by n.basis_seq, n.id limit 1) as next
from settled d

-- name: origin
-- For the trace of a reply that no ticket told of: its turn with the message that brought it about, or the message that a notice is about.
-- $1 outbound uuid
select case t.cause_kind when 'message' then t.cause else t.id end as cause, t.id as subject, 'turn' as work
from outbound o join turn t on t.id = o.origin and t.business = o.business where o.id = $1 and o.origin_kind = 'turn'
union all
select m.id, m.id, 'guard' from outbound o join inbound_message m on m.id = o.origin and m.business = o.business where o.id = $1 and o.origin_kind = 'notice'

-- name: bar
-- What can't be decided yet is looked at again in a second, unless whoever stands before it rings earlier.
-- $1 outbounds uuid[]
update outbound set ring_at = now() + interval '1 s' where id = any ($1::uuid[]) and state || '' = 'queued' returning id

-- name: pause_account
-- A provider's "wait" holds for all workers.
-- $1 account int · $2 business int · $3 how long interval
insert into account_rate as r (account, business, wait_until) values ($1, $2, now() + $3::interval)
on conflict (account, business) do update set wait_until = greatest(r.wait_until, excluded.wait_until)

-- name: disable_account
-- Every send of the account fails the same way: it is off, its queued outbounds wait, every conversation's claim must look again. Unless its secrets
-- are others by now than those that were refused. Returns whether they are the same.
-- $1 account int · $2 business int · $3 why text · $4 sealed secrets bytea
with off as (
  update channel_account set state = 'disabled', disabled_why = $3 where id = $1 and business = $2 and state = 'on' and secrets is not distinct from $4)
select secrets is not distinct from $4 as refused from channel_account where id = $1 and business = $2

-- name: bury
-- A request of ours was wrong: the reply is a draft for people, and the mistake lies among the dead for who runs the installation.
-- $1 dead id uuid · $2 outbound uuid · $3 conversation uuid · $4 reason text
insert into dead (id, business, stage, conversation, subject, reason) select $1, c.business, 'dispatch', c.id, $2, $4 from conversation c where c.id = $3
on conflict (stage, subject) do update set settled_at = null, died_at = now(), reason = excluded.reason

-- name: courtesies
-- What side calls need to know of the messages they are for.
-- $1 messages uuid[]
select m.account, k.channel, i.user_id, m.channel_message_id as message_id, m.kind = 'button' as pressed, m.quoted
from unnest($1::uuid[]) q (id) join inbound_message m on m.id = q.id join channel_identity i on i.conversation = m.conversation and i.business = m.business
  join channel_account k on k.id = m.account and k.business = m.business
where m.channel_message_id is not null and k.state = 'on'

-- name: count
-- One more attempt on a suspect ticket, counted before it is touched. $1 outbound uuid
update outbound set suspect = suspect + 1 where id = $1 and state || '' = 'queued' returning suspect

-- name: give_up
-- Five attempts ended badly: the reply becomes a draft for people, and the work lies among the dead.
-- $1 outbound uuid · $2 dead id uuid
with found as materialized (select o.id, o.business, o.conversation from outbound o where o.id = $1 and o.state || '' = 'queued'),
row as (
  update conversation_state s set version = s.version + 1 from (select s2.conversation from conversation_state s2 join found on found.conversation = s2.conversation for no key update of s2) l
  where s.conversation = l.conversation returning s.conversation),
o as (
  update outbound o set state = 'draft', reason = 'processing_failed', ring_at = null from found where o.id = found.id and (select count(*) from row) > 0)
insert into dead (id, business, stage, conversation, subject, reason) select $2, business, 'dispatch', conversation, id, 'dispatch failed on it five times' from found
on conflict (stage, subject) do update set settled_at = null, died_at = now()
returning subject

-- name: anything_due
-- The sweeper's cheap look.
select exists (select from outbound where state = 'queued' and ring_at <= now() limit 1) as due

-- name: ring_due
-- W1: queued outbounds nobody rang for, their ring time moved on.
-- $1 most int
with due as materialized (
  select id from outbound where state = 'queued' and ring_at <= now() order by ring_at limit $1 for no key update skip locked)
update outbound o set ring_at = now() + interval '10 s' from due where o.id = due.id returning o.id

-- name: senders
-- W2: workers with sends under way.
select distinct worker from send_attempt where state = 'sending'

-- name: abandon
-- W2 and W3: sends of a dead worker ($1), or ($1 null) under way for longer than $2: nobody knows whether they left. Where the channel takes an
-- idempotency key ($3) they are queued again under the same key; elsewhere they are `unknown`, and never sent again by themselves. A worker's
-- death counts against what it was sending: from the third on each waits its turn, half a second after the one before, so that the one that
-- kills is found out; after $4 it is `unknown` everywhere, else a send that kills would kill for ever.
with lost as materialized (
  select a.id, a.conversation, a.outbound, k.channel = any ($3::text[]) and o.suspect < $4::int as again,
    case when $1::int is not null and o.suspect >= 2 then row_number() over (order by a.started_at, a.id) * interval '500 ms' end as wait
  from send_attempt a join channel_account k on k.id = a.account and k.business = a.business join outbound o on o.id = a.outbound
  where a.state = 'sending' and (a.worker = $1 or ($1::int is null and a.started_at < now() - $2::interval))),
locked as materialized (
  select l.* from lost l join conversation_state s on s.conversation = l.conversation order by s.conversation for no key update of s),
a as (
  update send_attempt a set state = case when l.again then 'retried' else 'unknown' end, settled_at = now(), reason = 'nobody_knows' from locked l
  where a.id = l.id and a.state = 'sending' returning a.id, a.outbound, a.conversation, l.again, l.wait),
o as (
  update outbound o set state = case when a.again then 'queued' else 'unknown' end, reason = case when a.again then o.reason else 'no_answer' end, not_before = case when a.again then now() + a.wait end,
    ring_at = case when a.again then coalesce(now() + a.wait, now()) end, suspect = o.suspect + case when $1::int is null then 0 else 1 end
  from a where o.id = a.outbound and o.state = 'sending' returning o.id, o.state),
row as (
  update conversation_state s set sending_attempt = null, version = s.version + 1 from a where s.conversation = a.conversation and s.sending_attempt = a.id)
select id from o where state = 'queued'

-- name: open_decisions
-- W3: what is unknown for two minutes becomes an open decision for operators: it may have arrived.
with old as materialized (
  select a.id, a.outbound, a.conversation from send_attempt a where a.state = 'unknown' and a.started_at < now() - interval '2 min'),
locked as materialized (
  select o.* from old o join conversation_state s on s.conversation = o.conversation order by s.conversation for no key update of s),
a as (
  update send_attempt a set state = 'undecided' from locked l where a.id = l.id and a.state = 'unknown' returning a.outbound, a.conversation),
row as (
  update conversation_state s set version = s.version + 1 from a where s.conversation = a.conversation)
update outbound o set state = 'draft', reason = 'may_have_arrived', ring_at = null from a where o.id = a.outbound and o.state = 'unknown' returning o.id

-- name: deliver_sim
-- The sim channel's other end. The key makes a repeated send a no-op that counts as accepted.
-- $1 keys text[] · $2 businesses int[] · $3 accounts int[] · $4 user ids text[] · $5 bodies text[] · $6 buttons text[]
insert into sim_delivery (key, business, account, user_id, body, buttons)
select d.* from unnest($1::text[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[]) as d on conflict (account, key) do nothing

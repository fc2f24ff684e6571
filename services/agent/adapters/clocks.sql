-- name: expire_approvals
-- W3: an approval that nobody gave in time is a decline by the clock, and the agent is owed a turn for it, which tells the customer. A row that
-- somebody else holds is left for the next look. The decision is tested again on the action as it is now: of two agents, or of an agent and an
-- operator, the first decides.
-- $1 decisions uuid[]: as many as may be made
with late as materialized (
  select a.id, a.conversation from pending_action a
  where a.state = 'operator' and a.decision is null and a.waits_until < business_now() order by a.waits_until limit cardinality($1::uuid[])),
locked as materialized (
  select late.id from late join conversation_state s on s.conversation = late.conversation order by s.conversation for no key update of s skip locked),
numbered as materialized (select id, row_number() over () as nth from locked),
decided as (
  update pending_action a set decision = d.decision, decided = 'expired', decided_by = 'clock', decided_at = business_now()
  from numbered n join unnest($1::uuid[]) with ordinality as d (decision, nth) on d.nth = n.nth
  where a.id = n.id and a.state || '' = 'operator' and a.decision is null and a.waits_until < business_now()
  returning a.conversation, a.decision)
update conversation_state s set decision_owed = decided.decision, due_at = least(coalesce(s.due_at, now()), now()), version = s.version + 1
from decided where s.conversation = decided.conversation returning s.conversation

-- name: unset
-- W3: open handoffs whose times are not reckoned yet, oldest first.
-- $1 most int
with waiting as materialized (select h.* from handoff h where h.released_at is null and not h.clock_set)
select h.conversation, h.epoch, h.reason, h.opened_at, h.business, b.slug, b.pack, b.time_zone, b.locales[1] as locale, b.handoff_remind_min, b.handoff_tell_min, business_now() as now
from waiting h join business b on b.id = h.business
  cross join lateral (select x.state from conversation_state x where x.conversation = h.conversation and x.handoff_epoch = h.epoch offset 0) s
where s.state = 'handoff'
order by h.opened_at limit $1

-- name: set_times
-- When their clocks strike. Reckoned by several agents at once it comes to the same, and the first stays.
-- $1 conversations uuid[] · $2 epochs int[] · $3 remind at timestamptz[] · $4 tell at timestamptz[]
with locked as materialized (
  select d.* from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[]) as d (conversation, epoch, remind_at, tell_at)
    join handoff h on h.conversation = d.conversation and h.epoch = d.epoch where not h.clock_set order by h.conversation, h.epoch for no key update of h)
update handoff h set clock_set = true, remind_at = d.remind_at, tell_at = d.tell_at from locked d where h.conversation = d.conversation and h.epoch = d.epoch

-- name: unclaimed
-- W3: handoffs that nobody claimed, of which a time has passed, oldest first. One with a message that is not judged waits: it may be the owner's.
-- A person has answered by an operator's message, by a draft they sent, or from their own phone: an echo of nothing that we sent.
-- $1 most int
with waiting as materialized (
  select h.* from handoff h where h.released_at is null and h.claimed_by is null
    and ((h.reminded_at is null and h.remind_at <= business_now()) or (h.told_at is null and h.tell_at <= business_now())))
select h.conversation, h.epoch, s.version, b.slug, h.reason, coalesce(s.locale, b.locales[1]) as locale, h.remind_at, h.reminded_at, h.tell_at, h.told_at, business_now() as now, s.opted_out_at is not null as opted_out,
  exists (select from outbound o where o.conversation = h.conversation and o.epoch = h.epoch and (o.origin_kind = 'operator' or o.round > 1) and o.state || '' not in ('draft', 'superseded', 'discarded'))
  or exists (select from inbound_message m where m.conversation = h.conversation and m.seq > s.guarded_seq - 200 and m.kind = 'echo' and m.received_at > h.opened_at
    and not exists (select from send_attempt a where a.account = m.account and a.provider_id = m.channel_message_id)
    and not exists (select from outbound o where o.conversation = m.conversation and o.body = m.body)) as answered
from waiting h join conversation_state s on s.conversation = h.conversation and s.state || '' = 'handoff' and s.handoff_epoch = h.epoch join business b on b.id = h.business
where s.unguarded = 0 order by h.opened_at limit $1

-- name: strike
-- What the clock does, each once, only where the row is still as it was seen: operators get a flag on the newest message, the customer one message
-- that belongs to this handoff and so goes out in it.
-- $1 conversations uuid[] · $2 versions seen bigint[] · $3 epochs int[] · $4 reminds boolean[] · $5 tells boolean[] · $6 drops boolean[] · $7 outbounds uuid[] · $8 origins uuid[] · $9 texts text[]
with locked as materialized (
  select d.* from unnest($1::uuid[], $2::bigint[], $3::int[], $4::boolean[], $5::boolean[], $6::boolean[], $7::uuid[], $8::uuid[], $9::text[])
    as d (conversation, seen, epoch, reminds, tells, drops, outbound, origin, body) join conversation_state s on s.conversation = d.conversation
  where s.version = d.seen and s.state = 'handoff' and s.handoff_epoch = d.epoch order by s.conversation for no key update of s),
struck as (
  update handoff h
  set reminded_at = case when d.reminds then business_now() else h.reminded_at end, told_at = case when d.tells then business_now() else h.told_at end,
    tell_at = case when d.drops then null else h.tell_at end
  from locked d where h.conversation = d.conversation and h.epoch = d.epoch and h.released_at is null and h.claimed_by is null
  returning d.*),
row as (
  update conversation_state s set version = s.version + 1 from struck where s.conversation = struck.conversation
  returning s.business, s.guarded_seq, struck.*),
flagged as (
  insert into flag (message, business, conversation, reason)
  select m.id, row.business, row.conversation, 'handoff_waiting' from row
    join lateral (select y.id from inbound_message y where y.conversation = row.conversation and y.kind <> 'echo' order by y.seq desc nulls first limit 1) m on true
  where row.reminds
  on conflict (message, reason) do update set dismissed_at = null),
o as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, ring_at)
  select outbound, business, conversation, 'notice', origin, guarded_seq, epoch, 'auto', body, now() + interval '2 s' from row where tells
  on conflict (origin, part, origin_kind) do nothing)
select conversation from row

-- name: release_takeovers
-- W3: an owner's takeover is over when they have been quiet for long enough: as the guard does it at the customer's next message, but now, so that
-- lists tell the truth. What somebody has claimed is theirs, and what is not judged may be the owner's next word.
-- $1 most int
with taken as materialized (
  select h.* from handoff h where h.released_at is null and h.reason = 'owner_takeover' and h.claimed_by is null),
over as materialized (
  select h.conversation, s.version
  from taken h join conversation_state s on s.conversation = h.conversation and s.state || '' = 'handoff' and s.handoff_epoch = h.epoch join business b on b.id = h.business
  where s.unguarded = 0
    and coalesce((select m.received_at from inbound_message m where m.conversation = h.conversation and m.seq > s.guarded_seq - 200 and m.reason = 'owner_takeover' order by m.seq desc limit 1), h.opened_at)
      < business_now() - make_interval(mins => b.takeover_quiet_min)
  order by h.opened_at limit $1),
locked as materialized (
  select over.* from over join conversation_state s on s.conversation = over.conversation where s.version = over.version order by s.conversation for no key update of s skip locked),
row as (
  update conversation_state s
  set state = 'bot', handoff_epoch = s.handoff_epoch + 1, released_at = business_now(), version = s.version + 1,
    due_at = case when s.opted_out_at is null and (s.customer_seq > s.handled_seq or s.decision_owed is not null) then coalesce(s.due_at, now()) else s.due_at end
  from locked where s.conversation = locked.conversation returning s.conversation),
released as (
  update handoff h set released_at = business_now(), released_by = 'clock' from row where h.conversation = row.conversation and h.released_at is null)
select conversation from row

-- name: reminding
-- Businesses of these packs that want reminders sent; none of one in which nothing is generated.
-- $1 packs text[]
select b.id, b.slug, b.pack, b.time_zone, b.locales[1] as locale, b.reminder_hours, b.quiet_from, b.quiet_to, business_now() as now
from business b where b.pack = any ($1::text[]) and b.reminder_hours > 0 and b.mode <> 'off' order by b.id

-- name: recipients
-- Where reminders may go now: each customer's conversation of late on an account that is on, that took no leave of us and in which something is
-- generated; not while people answer there, nor into the middle of a conversation. A key that had its reminder is missing.
-- $1 business int · $2 keys uuid[] · $3 customers uuid[] · $4 the customer was quiet for interval
select q.key, x.conversation, x.version, x.locale
from unnest($2::uuid[], $3::uuid[]) as q (key, customer) cross join lateral (
  select c.id as conversation, s.version, coalesce(s.locale, b.locales[1]) as locale, s.state, s.last_customer_at
  from conversation c join conversation_state s on s.conversation = c.id join channel_account k on k.id = c.account and k.business = c.business join business b on b.id = c.business
  where c.customer = q.customer and c.business = $1 and k.state = 'on' and s.opted_out_at is null and coalesce(k.mode, 'auto') <> 'off' and coalesce(s.mode, 'auto') <> 'off'
  order by s.last_customer_at desc nulls last, c.created_at desc, c.id limit 1) x
where x.state = 'bot' and coalesce(x.last_customer_at, '-infinity') <= business_now() - $4::interval
  and not exists (select from reminder r where r.id = q.key and r.business = $1)

-- name: remind
-- Reminders of one business, stored and queued; dispatch applies mode, opt-out and quiet hours. Only where the conversation's row is still as it was
-- seen, and once a key: the reminder's own key decides.
-- $1 business int · $2 conversations uuid[] · $3 versions seen bigint[] · $4 keys uuid[] · $5 tools text[] · $6 arguments text[] · $7 thanks text[] · $8 outbounds uuid[] · $9 texts text[] · $10 buttons text[]
with d as materialized (
  select * from unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::text[], $10::text[])
    as d (conversation, seen, key, tool, arguments, thanks, outbound, body, buttons)),
locked as materialized (
  select s.conversation from (select distinct conversation, seen from d) q join conversation_state s on s.conversation = q.conversation
  where s.version = q.seen and s.business = $1 and s.state = 'bot' and s.opted_out_at is null order by s.conversation for no key update of s),
made as (
  insert into reminder (id, business, conversation, tool, arguments, thanks)
  select d.key, $1, d.conversation, d.tool, d.arguments, d.thanks from d join locked on locked.conversation = d.conversation order by d.key
  on conflict (id, business) do nothing returning id, conversation),
row as (
  update conversation_state s set version = s.version + 1 from (select distinct conversation from made) m where s.conversation = m.conversation
  returning s.conversation, s.guarded_seq, s.handoff_epoch)
insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, buttons, ring_at)
select d.outbound, $1, d.conversation, 'reminder', d.key, row.guarded_seq, row.handoff_epoch, 'auto', d.body, d.buttons, now() + interval '2 s'
from made join d on d.key = made.id join row on row.conversation = made.conversation
on conflict (origin, part, origin_kind) do nothing returning id

-- name: unsent
-- Reminders that were made and have not left: they wait for the quiet hours' end, or for an operator who has not said yet. One that may have arrived
-- is not among them.
-- $1 business int
select o.id, o.conversation, o.origin from outbound o where o.state = 'queued' and o.origin_kind = 'reminder' and o.business = $1 and o.round = 1
union all select o.id, o.conversation, o.origin from outbound o
where o.state = 'draft' and o.origin_kind = 'reminder' and o.business = $1 and o.round = 1 and o.reason is distinct from 'may_have_arrived'

-- name: withdraw
-- What they remind of has been cancelled, moved, or has begun: they never go out.
-- $1 outbounds uuid[] · $2 conversations uuid[]
with locked as materialized (
  select d.outbound, s.conversation from unnest($1::uuid[], $2::uuid[]) as d (outbound, conversation) join conversation_state s on s.conversation = d.conversation
  order by s.conversation for no key update of s),
o as (
  update outbound o set state = 'superseded', ring_at = null from locked where o.id = locked.outbound and o.state || '' in ('queued', 'draft') and o.round = 1 returning o.conversation)
update conversation_state s set version = s.version + 1 from (select distinct conversation from o) m where s.conversation = m.conversation

-- name: reminder
-- What the buttons of a reminder stand for, asked by the conversation that it went to.
-- $1 conversation uuid · $2 reminder uuid
select r.tool, r.arguments, r.thanks from reminder r join conversation c on c.id = r.conversation and c.business = r.business
where r.id = $2 and r.conversation = $1

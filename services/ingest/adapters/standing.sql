-- name: standing
-- W4: what waits, for the metrics and the doctor: in few rows, by the indexes of what is open. Drafts and approvals as the console lists them, handoffs that are still
-- the conversation's. A step is owed once it is due for so long ($2: a ticket may be on its way), and nothing bars it: no account that is
-- off, no quiet hours, no turn under way. A ring moves the guard's due time, so its oldest message tells the age; and dispatch's, so the
-- reply's own times do. Times of people are business times.
-- $1 most of each that is counted int · $2 how long it may be due interval
select 'draft' as what, array[b.slug] as labels, d.number, d.oldest
from (select o.business, count(*) as number, business_now() - min(o.created_at) as oldest from outbound o where o.state = 'draft' group by o.business) d
  join business b on b.id = d.business
union all
select 'approval', array[b.slug], d.number, d.oldest
from (select a.business, count(*) as number, business_now() - min(coalesce(f.at, a.created_at)) as oldest
      from pending_action a cross join lateral (select max(x.at) + shift() as at from confirmation x where x.action = a.id) f
      where a.state = 'operator' and a.decision is null group by a.business) d
  join business b on b.id = d.business
union all
select 'handoff', array[b.slug, case when d.claimed then 'yes' else 'no' end], d.number, d.oldest
from (select h.business, h.claimed_by is not null as claimed, count(*) as number, business_now() - min(h.opened_at) as oldest
      from handoff h cross join lateral (
        select from conversation_state s where s.conversation = h.conversation and s.handoff_epoch = h.epoch and s.state = 'handoff' offset 0) s
      where h.released_at is null group by h.business, h.claimed_by is not null) d
  join business b on b.id = d.business
union all
select 'owed', array['ingest'], count(*), now() - min(d.due_at)
from ((select due_at from media_part where due_at <= now() - $2::interval order by due_at limit $1)
  union all (select due_at from held_status where due_at <= now() - $2::interval order by due_at limit $1)) d
union all
select 'owed', array['guard'], count(*), max(d.age)
from (select business_now() - m.received_at as age
      from (select conversation from conversation_state where guard_due_at is not null order by guard_due_at limit $1) s
        cross join lateral (select min(x.received_at) as received_at from inbound_message x where x.conversation = s.conversation and x.seq is null) m) d
where d.age >= $2::interval
union all
select 'owed', array['agent'], count(*), now() - min(d.due_at)
from (select due_at from conversation_state
      where due_at <= now() - $2::interval and unguarded = 0 and (lease_token is null or lease_until < now()) and state = 'bot' and opted_out_at is null
      order by due_at limit $1) d
union all
select 'owed', array['dispatch'], count(*), max(d.age)
from (select business_now() - greatest(q.created_at, q.not_before + shift()) as age
      from (select conversation, business, created_at, not_before from outbound where state = 'queued' order by ring_at limit $1) q
        cross join lateral (
          select from conversation c join channel_account k on k.id = c.account and k.business = c.business
          where c.id = q.conversation and c.business = q.business and k.state = 'on' offset 0) k) d
where d.age >= $2::interval
union all
select 'dead', array[d.stage], count(*), interval '0' from (select stage from dead where settled_at is null order by died_at limit $1) d group by d.stage
union all
select 'account', array[k.channel, s.state], count(*) filter (where k.state = s.state), interval '0'
from channel_account k cross join (values ('on'), ('disabled')) s(state) group by k.channel, s.state

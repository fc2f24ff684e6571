-- name: unsettled
-- Work that failed for good and that nobody decided about, oldest first, and how much of it there is.
-- $1 most int
select d.id, d.stage, b.slug as business, d.conversation, d.subject, d.reason, d.died_at, count(*) over ()::int as all from dead d join business b on b.id = d.business
where d.settled_at is null order by d.died_at limit $1

-- name: look
-- One of them, settled or not, with what decides whether it can be tried again. Only for the sentence; `retry_…` tests it again, under the lock.
-- $1 dead id uuid
select d.stage, d.business, d.conversation, d.settled_at, d.settled_how, s.state, s.opted_out_at is not null as opted_out, h.reason as handoff_reason, o.state as reply_state,
  o.reason is not distinct from 'may_have_arrived' or exists (select from send_attempt a where a.outbound = o.id and a.state in ('sending', 'unknown', 'undecided', 'retried')) as may_have_arrived
from dead d join conversation_state s on s.conversation = d.conversation
  left join handoff h on h.conversation = d.conversation and h.epoch = s.handoff_epoch
  left join outbound o on o.id = d.subject and d.stage = 'dispatch'
where d.id = $1

-- name: retry_guard
-- Back to the bot, and what nobody could judge is unjudged again: it gets new numbers, after what was judged since. Row and letter are locked
-- together and tested as they are then, so that of two only one gets it. Nothing returned: settled, or the conversation went on.
-- $1 dead id uuid
with locked as materialized (
  select d.id, s.conversation, s.handoff_epoch from dead d join conversation_state s on s.conversation = d.conversation
  where d.id = $1 and d.stage = 'guard' and d.settled_at is null and s.state = 'handoff'
    and exists (select from handoff h where h.conversation = s.conversation and h.epoch = s.handoff_epoch and h.reason = 'processing_failed')
  order by s.conversation for no key update of s, d),
messages as (
  update inbound_message m set seq = null, verdict = null, reason = null from locked l
  where m.conversation = l.conversation and m.verdict = 'handoff' and m.reason = 'processing_failed'
    and m.received_at > coalesce((select max(h.opened_at) from handoff h where h.conversation = l.conversation and h.epoch < l.handoff_epoch), '-infinity')
  returning m.id),
row as (
  update conversation_state s
  set state = 'bot', handoff_epoch = s.handoff_epoch + 1, released_at = now(), version = s.version + 1,
      unguarded = s.unguarded + (select count(*) from messages), guard_due_at = now(), guard_attempts = 0
  from locked l where s.conversation = l.conversation
  returning s.conversation),
released as (
  update handoff h set released_at = now() from locked l where h.conversation = l.conversation and h.released_at is null)
update dead d set settled_at = now(), settled_how = 'retried' from locked l, row where d.id = l.id and row.conversation = l.conversation returning d.id

-- name: retry_agent
-- Back to the bot, and the messages from the failed turn's first on are owed a turn again. The failed turn gives up its cause to the letter,
-- so that the next claim makes a new one, with attempts and a reply of its own: one turn a cause, one reply a turn.
-- $1 dead id uuid
with locked as materialized (
  select d.id, d.subject, s.conversation, t.seq_from from dead d join conversation_state s on s.conversation = d.conversation join turn t on t.id = d.subject
  where d.id = $1 and d.stage = 'agent' and d.settled_at is null and s.state = 'handoff' and s.opted_out_at is null
    and exists (select from handoff h where h.conversation = s.conversation and h.epoch = s.handoff_epoch and h.reason = 'processing_failed')
  order by s.conversation for no key update of s, d),
turn_of as (
  update turn t set cause = l.id from locked l where t.id = l.subject),
row as (
  update conversation_state s
  set state = 'bot', handoff_epoch = s.handoff_epoch + 1, released_at = now(), version = s.version + 1,
      handled_seq = l.seq_from - 1, due_at = now(), unanswered_since = now(), superseded_in_row = 0, lease_token = null, lease_worker = null, lease_until = null
  from locked l where s.conversation = l.conversation
  returning s.conversation),
released as (
  update handoff h set released_at = now() from locked l where h.conversation = l.conversation and h.released_at is null)
update dead d set settled_at = now(), settled_how = 'retried' from locked l, row where d.id = l.id and row.conversation = l.conversation returning d.id

-- name: retry_dispatch
-- The draft is queued again, in its next round: a person decided, whether dispatch failed on it or the provider refused our request. One that may
-- have arrived is not: nothing is sent twice by guessing.
-- $1 dead id uuid
with locked as materialized (
  select d.id, d.subject, s.conversation, s.handoff_epoch from dead d join conversation_state s on s.conversation = d.conversation join outbound o on o.id = d.subject
  where d.id = $1 and d.stage = 'dispatch' and d.settled_at is null and s.opted_out_at is null and o.state = 'draft' and o.reason is distinct from 'may_have_arrived'
    and not exists (select from send_attempt a where a.outbound = o.id and a.state in ('sending', 'unknown', 'undecided', 'retried'))
  order by s.conversation for no key update of s, o, d),
row as (
  update conversation_state s set version = s.version + 1 from locked l where s.conversation = l.conversation returning s.conversation),
reply as (
  update outbound o set state = 'queued', reason = null, round = o.round + 1, epoch = l.handoff_epoch, suspect = 0, first_try_at = null, not_before = null, ring_at = now()
  from locked l where o.id = l.subject)
update dead d set settled_at = now(), settled_how = 'retried' from locked l, row where d.id = l.id and row.conversation = l.conversation returning d.id

-- name: drop
-- Decided: nothing more is done about it by itself. Once: the second of two gets nothing back.
-- $1 dead id uuid · $2 why text
update dead set settled_at = now(), settled_how = 'dropped: ' || $2::text where id = $1 and settled_at is null returning id

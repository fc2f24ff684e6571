-- name: settled
-- Whether a conversation owes nothing: nothing to judge, no turn due or under way, nothing on its way out.
-- $1 account int · $2 user id text
select s.conversation, s.unguarded = 0 and s.due_at is null and s.lease_token is null and s.sending_attempt is null
    and not exists (select from outbound o where o.conversation = s.conversation and o.state in ('queued', 'sending')) as settled
from channel_identity i join conversation_state s on s.conversation = i.conversation where i.account = $1 and i.user_id = $2

-- name: receipts
-- Each receipt of a conversation with what stands behind it: the action, how often it was confirmed and by what words, an approval.
-- $1 conversation uuid
select r.tool, p.id is not null as was_asked, p.decided, p.digest = r.digest as as_shown,
  (select array_agg(m.body || '|' || coalesce(m.button, '') order by c.step) from confirmation c join inbound_message m on m.id = c.message where c.action = r.action) as words,
  (select count(distinct c.message) from confirmation c where c.action = r.action) as confirmations,
  (select bool_and(exists (select from send_attempt a join outbound o on o.id = a.outbound where o.action = r.action and a.at_send_seq < m.seq))
    from confirmation c join inbound_message m on m.id = c.message where c.action = r.action) as after_the_prompt
from receipt r left join pending_action p on p.id = r.action where r.conversation = $1

-- name: unanswered
-- Messages that a turn owed an answer and that no turn took, or turns that ended without a word for no reason that allows it.
-- $1 conversation uuid
select 'no turn took it: ' || left(m.body, 60) as what from inbound_message m join conversation_state s on s.conversation = m.conversation
where m.conversation = $1 and m.verdict = 'turn' and s.state = 'bot' and s.opted_out_at is null
  and not exists (select from turn t where t.conversation = m.conversation and m.seq between t.seq_from and t.seq_to and t.state <> 'running')
  and not exists (select from handoff h where h.conversation = m.conversation and h.opened_at >= m.received_at)  -- people read it
union all
select 'a turn without a word: ' || coalesce(t.outcome, t.state) from turn t
where t.conversation = $1 and t.state in ('done', 'failed') and not exists (select from outbound o where o.origin = t.id)
  and coalesce(t.outcome, '') not in ('prompt_is_the_answer', 'pressed_again', 'unsupported_again', 'autonomy_off', 'decided_too_late')

-- name: broken
-- What may never be: failed or running turns, dead work, two replies to a turn, an action open twice, a receipt twice.
-- $1 conversation uuid
select 'turn ' || t.state as what from turn t where t.conversation = $1 and t.state in ('running', 'failed')
union all select 'dead: ' || d.reason from dead d where d.conversation = $1
union all select 'two replies to one turn' from outbound o where o.conversation = $1 and o.origin_kind = 'turn' group by o.origin having count(*) > 1
union all select 'a turn without evidence' from turn t where t.conversation = $1 and t.state <> 'running' and not exists (select from envelope e where e.turn = t.id)
union all select 'a reply in mode off' from outbound o join business b on b.id = o.business where o.conversation = $1 and b.mode = 'off'
union all select 'sent without an operator in mode suggest' from outbound o join business b on b.id = o.business
  where o.conversation = $1 and b.mode = 'suggest' and o.origin_kind <> 'operator' and o.round = 1 and o.state in ('sent', 'delivered', 'read', 'sending', 'unknown')
union all select 'sent although a tool at level 0 was called: ' || c.tool from tool_call c join outbound o on o.origin = c.turn join tool_level l on l.business = c.business and l.tool = c.tool
  where o.conversation = $1 and l.level = 0 and o.round = 1 and o.state in ('sent', 'delivered', 'read')

-- name: replies
-- What a conversation's customer was told, with whether its turn has a receipt.
-- $1 conversation uuid
select o.body, o.round, exists (select from receipt r where r.turn = o.origin) as backed, t.outcome
from outbound o left join turn t on t.id = o.origin where o.conversation = $1 and o.state in ('sent', 'delivered', 'read')

-- name: chain
-- A conversation's evidence.
-- $1 conversation uuid
select n, header, digest, parts from envelope where conversation = $1 order by n

-- name: customer
-- Whose conversation it is.
-- $1 conversation uuid
select customer from conversation where id = $1

-- name: appointments
-- A customer's appointments as they stand, for the ledger of receipts.
-- $1 customer uuid
select state from clinic.appointment where customer = $1

-- name: expenses
-- A customer's expenses as they stand.
-- $1 customer uuid
select state from expenses.expense where customer = $1

-- name: open_work
-- What waits for operators in a conversation.
-- $1 conversation uuid
select (select id from pending_action where conversation = $1 and state = 'operator' and decision is null) as approval,
  (select id from outbound where conversation = $1 and state = 'draft' order by id desc limit 1) as draft,
  (select state from conversation_state where conversation = $1) as state

-- name: last_prompt
-- The buttons that a conversation's customer has seen.
-- $1 conversation uuid
select buttons from outbound where conversation = $1 and buttons is not null and state in ('sent', 'delivered', 'read') order by id desc limit 3

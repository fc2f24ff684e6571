-- name: head
-- Whose conversation it is, and how it stands.
-- $1 conversation uuid
select s.conversation, b.slug as business, b.time_zone, p.name, i.user_id as address, k.channel, k.address as account, s.state, s.handoff_epoch, s.opted_out_at, s.mode, k.mode as account_mode, b.mode as business_mode,
  s.unguarded, s.due_at is not null as owed
from conversation_state s join business b on b.id = s.business join conversation c on c.id = s.conversation join customer p on p.id = c.customer
  join channel_identity i on i.conversation = s.conversation join channel_account k on k.id = c.account and k.business = s.business
where s.conversation = $1

-- name: messages
-- What came in, with the guard's verdicts and what became of it.
-- $1 conversation uuid
select id, seq, kind, body, button, verdict, reason, channel_at, received_at as at, forwarded, edited_at, edited_to, deleted_at from inbound_message where conversation = $1 order by id

-- name: parts
-- What they carry beside their text, and how far its content is.
-- $1 conversation uuid
select m.id, p.n, p.kind as part, p.mime, p.name, p.words, p.state, p.reason, p.bytes, p.stored_at as at from inbound_message m join media_part p on p.message = m.id where m.conversation = $1 order by m.id, p.n

-- name: turns
-- The agent's turns.
-- $1 conversation uuid
select id, cause_kind, seq_from, seq_to, engine, model, state, outcome, attempts, started_at as at, ended_at from turn where conversation = $1 order by id

-- name: calls
-- Every call of a model.
-- $1 conversation uuid
select id, turn, n, attempt, try, provider, coalesce(model_answered, model) as model, state, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd, reserved_usd, latency_ms, finish, error, started_at as at
from llm_call where conversation = $1 order by id

-- name: tool_calls
-- What the model asked for, what the gate said and by what, and what came back.
-- $1 conversation uuid
select x.turn, x.n, x.position, x.tool, x.arguments, x.decision, x.reason, x.why, x.result, x.at from turn t join tool_call x on x.turn = t.id where t.conversation = $1 order by x.at, x.n, x.position

-- name: actions
-- What waited for a yes, and how it ended.
-- $1 conversation uuid
select id, turn, tool, arguments, summary, asked, confirmations_needed, state, reason, decided, decided_why, decided_by, decided_at, waits_until, created_at as at, ended_at
from pending_action where conversation = $1 order by id

-- name: confirmations
-- The customer's confirmations, each of a message.
-- $1 conversation uuid
select c.action, c.message, c.step, c.at, a.tool from pending_action a join confirmation c on c.action = a.id where a.conversation = $1 order by c.at

-- name: receipts
-- What was really done.
-- $1 conversation uuid
select r.id, r.action, r.turn, r.tool, r.result, r.at from turn t join receipt r on r.turn = t.id where t.conversation = $1 order by r.id

-- name: replies
-- What was said or was to be said, with the attempts to send it.
-- $1 conversation uuid
select o.id, o.origin_kind, o.state, o.reason, o.round, o.body, o.parts, o.parts_sent, o.receipt, o.action, o.created_at as at, o.sent_at,
  (select count(*) from send_attempt a where a.outbound = o.id) as attempts, (select a.reason from send_attempt a where a.outbound = o.id order by a.started_at desc limit 1) as attempt_reason
from outbound o where o.conversation = $1 order by o.id

-- name: decisions
-- What people decided about drafts.
-- $1 conversation uuid
select d.outbound, d.round, d.decision, d.decided_by, d.decided_at as at from outbound o join draft_decision d on d.outbound = o.id where o.conversation = $1 order by d.decided_at

-- name: handoffs
-- When people answered.
-- $1 conversation uuid
select epoch, reason, opened_at as at, claimed_by, claimed_at, released_at, released_by, note, reminded_at, told_at from handoff where conversation = $1 order by epoch

-- name: flags
-- Marks on its messages.
-- $1 conversation uuid
select f.message, f.reason, f.raised_at as at, f.dismissed_at from inbound_message m join flag f on f.message = m.id where m.conversation = $1 order by f.raised_at

-- name: message
-- The latest message of a conversation, with the guard's verdict.
-- $1 conversation uuid
select m.body, m.kind, m.seq, m.verdict, m.reason from inbound_message m where m.conversation = $1 order by m.seq desc nulls last limit 1

-- name: turn
-- The latest turn of a conversation.
-- $1 conversation uuid
select t.id, t.cause_kind, t.seq_from, t.seq_to, t.engine, t.model, t.state, t.outcome, t.attempts from turn t where t.conversation = $1 order by t.started_at desc, t.id desc limit 1

-- name: calls
-- A turn's model calls.
-- $1 turn uuid
select c.n, c.state, c.provider, c.model, c.input_tokens, c.output_tokens, c.cost_usd, c.latency_ms, c.error from turn t join llm_call c on c.conversation = t.conversation and c.turn = t.id
where t.id = $1 order by c.id

-- name: tools
-- The tool calls of a turn, with what the gate decided by.
-- $1 turn uuid
select x.tool, x.arguments, x.decision, x.reason, x.why, x.result from tool_call x where x.turn = $1 order by x.n, x.position

-- name: confirmations
-- The customer's yeses that a turn took.
-- $1 turn uuid
select f.step, a.tool, a.confirmations_needed from turn t join inbound_message m on m.conversation = t.conversation and m.seq between t.seq_from and t.seq_to
  join pending_action a on a.conversation = t.conversation join confirmation f on f.action = a.id and f.message = m.id
where t.id = $1 order by f.at

-- name: receipts
-- What a turn did.
-- $1 turn uuid
select r.id, r.tool, r.result from receipt r where r.turn = $1 order by r.id

-- name: action
-- What waits, or waited last, for a yes in a conversation.
-- $1 conversation uuid
select a.tool, a.summary, a.asked, a.confirmations_needed, a.step, a.state, a.reason from pending_action a where a.conversation = $1 order by a.id desc limit 1

-- name: replies
-- What became of a turn's replies.
-- $1 turn uuid
select o.state, o.reason, o.round from turn t join outbound o on o.conversation = t.conversation and o.origin = t.id where t.id = $1 order by o.id

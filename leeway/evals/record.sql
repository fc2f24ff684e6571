-- What the record says of one business, for scripts: read whole after each step.

-- name: conversations
-- Who talks, and the row that decides.
-- $1 business int
select s.conversation, c.customer, i.user_id, s.state, s.handoff_epoch, s.opted_out_at is not null as opted_out, s.guarded_seq, s.handled_seq, s.chain_length, s.chain_head, s.mode, s.version
from conversation_state s join conversation c on c.id = s.conversation join channel_identity i on i.conversation = s.conversation where s.business = $1 order by c.created_at, s.conversation

-- name: messages
-- What came in, in order.
-- $1 business int
select m.id, m.conversation, m.external_id, m.kind, m.body, m.button, m.seq, m.verdict, m.reason, m.received_at, m.channel_at
from inbound_message m where m.business = $1 order by m.received_at, m.seq, m.id

-- name: turns
-- What the agent did, in order.
-- $1 business int
select t.id, t.conversation, t.cause_kind, t.seq_from, t.seq_to, t.attempts, t.state, t.outcome from turn t where t.business = $1 order by t.started_at, t.id

-- name: tool_calls
-- What was asked for, and what the gate said.
-- $1 business int
select x.turn, x.n, x.position, x.tool, x.arguments, x.decision, x.reason, x.result, x.why from tool_call x where x.business = $1 order by x.at, x.n, x.position

-- name: outbounds
-- Replies, in order, with what the channel knows them by.
-- $1 business int
select o.id, o.conversation, o.origin_kind, o.origin, o.state, o.reason, o.round, o.body, o.buttons, o.receipt, o.action, o.epoch, o.parts, o.created_at,
  (select a.provider_id from send_attempt a where a.outbound = o.id and a.provider_id is not null order by a.started_at limit 1) as provider_id,
  (select a.id from send_attempt a where a.outbound = o.id order by a.started_at desc limit 1) as attempt,
  (select array_agg(d.round) from draft_decision d where d.outbound = o.id and d.decision in ('send', 'edit')) as rounds_decided
from outbound o where o.business = $1 order by o.created_at, o.id

-- name: deliveries
-- What telephones show, in order.
-- $1 business int
select d.key, d.user_id, d.body from sim_delivery d where d.business = $1 order by d.delivered_at, d.key

-- name: actions
-- What waits or waited for a person.
-- $1 business int
select a.id, a.conversation, a.customer, a.tool, a.arguments, a.confirmations_needed, a.asked, a.state, a.reason, a.step, a.prompt, a.decided
from pending_action a where a.business = $1 order by a.created_at, a.id

-- name: confirmations
-- Each with the message that it was.
-- $1 business int
select f.action, f.step, f.message, m.conversation, m.kind, m.verdict, m.body from confirmation f left join inbound_message m on m.id = f.message where f.business = $1 order by f.at

-- name: receipts
-- What ran.
-- $1 business int
select r.id, r.conversation, r.action, r.turn, r.tool, r.digest, r.result from receipt r where r.business = $1 order by r.at, r.id

-- name: handoffs
-- What people have.
-- $1 business int
select h.conversation, h.epoch, h.reason, h.released_at is null as open from handoff h where h.business = $1 order by h.opened_at

-- name: flags
-- What a person should look at.
-- $1 business int
select f.message, f.conversation, f.reason from flag f where f.business = $1 order by f.raised_at, f.reason

-- name: llm_calls
-- What models were asked.
-- $1 business int
select c.conversation, c.turn, c.n, c.provider, c.model, c.model_answered, c.state, c.cost_usd, c.latency_ms, c.input_tokens, c.output_tokens from llm_call c where c.business = $1 order by c.started_at

-- name: envelopes
-- The evidence of turns, each conversation's in its order.
-- $1 business int
select e.turn, e.conversation, e.n, e.header, e.digest, e.parts from envelope e where e.business = $1 order by e.conversation, e.n

-- name: levels
-- What the business set for its tools.
-- $1 business int
select l.tool, l.level, l.asked from tool_level l where l.business = $1

-- name: modes
-- The modes of business and accounts.
-- $1 business int
select b.mode, (select array_agg(k.mode) from channel_account k where k.business = b.id and k.mode is not null) as account_modes from business b where b.id = $1

-- name: people
-- Customers who are known before they write.
-- $1 business int · $2 ids uuid[] · $3 names text[] · $4 phones text[] · $5 phone keys text[]
insert into customer (id, business, name, phone, phone_key) select d.id, $1, d.name, d.phone, d.key from unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) as d (id, name, phone, key)

-- name: handled
-- What became of one message: the guard's verdict, its turn with the model calls of it, and the reply.
-- $1 the sim account's address text · $2 the channel's id of the message text
select m.verdict, m.reason, t.id as turn, t.outcome, t.state as turn_state, (select count(*) from llm_call c where c.conversation = m.conversation and c.turn = t.id) as model_calls,
  o.id as reply, o.state as reply_state, o.reason as reply_reason, o.body, o.buttons
from inbound_message m join channel_account a on a.id = m.account and a.business = m.business
  left join lateral (select x.* from turn x where x.conversation = m.conversation and m.seq between x.seq_from and x.seq_to order by x.started_at desc limit 1) t on true
  left join lateral (select y.* from outbound y where y.conversation = m.conversation and y.origin in (t.id, m.id) order by y.id desc limit 1) o on true
where a.channel = 'sim' and a.address = $1 and m.external_id = $2

-- name: tool_calls
-- The tool calls of a turn with the gate's decisions, in order.
-- $1 turn uuid
select tool, decision, reason from tool_call where turn = $1 order by n, position

-- name: counts
-- What a business has in the record: enough to tell whether something changed.
-- $1 business int
select (select count(*)::int from inbound_message where business = $1) as messages,
  (select count(*)::int from turn where business = $1) as turns,
  (select count(*)::int from receipt where business = $1) as receipts,
  (select count(*)::int from confirmation where business = $1) as confirmations,
  (select count(*)::int from pending_action where business = $1 and state = 'customer') as waiting,
  (select count(*)::int from outbound where business = $1 and state = 'draft') as drafts,
  (select count(*)::int from handoff where business = $1 and released_at is null) as handoffs

-- name: envelopes
-- The sealed decisions of a business, each conversation's in their order.
-- $1 business int
select e.conversation, e.n, e.header, e.digest, e.parts from envelope e where e.business = $1 order by e.conversation, e.n

-- name: customer
-- Who wrote from a telephone.
-- $1 the sim account's address text · $2 user id text
select i.customer from channel_account a join channel_identity i on i.account = a.id and i.business = a.business where a.channel = 'sim' and a.address = $1 and i.user_id = $2

-- name: appointments
-- The business's booked appointments, soonest first, as its own tenant sees them.
-- $1 business int
select a.starts_at, a.service, d.name as dentist, c.name as customer from clinic.appointment a
  join clinic.dentist d on d.business = a.business and d.no = a.dentist_no join leeway.customer c on c.id = a.customer and c.business = a.business
where a.business = $1 and a.state = 'booked' order by a.starts_at

-- name: metering
-- Model calls of a business by iteration: tokens, cost, latency. Cost is null where a price is not known.
-- $1 business int
select n as iteration, count(*)::int as calls, sum(input_tokens)::int as input, sum(cached_tokens)::int as cached, sum(output_tokens)::int as output,
  sum(reasoning_tokens)::int as reasoning, case when bool_and(cost_usd is not null) then sum(cost_usd) end as cost_usd,
  percentile_disc(0.5) within group (order by latency_ms)::int as latency_ms_p50, max(latency_ms)::int as latency_ms_max, min(model) as model
from llm_call where business = $1 and state <> 'started' group by n order by n

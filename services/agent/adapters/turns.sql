-- name: claim
-- A1, with A2 of the first call folded in: lease, turn, call row; returns all that the turn needs. A conversation missing from the result is
-- not due, leased, not judged yet, or over its business's share of this process: its row goes on owing. The gather sees the snapshot of the
-- statement's start, so a turn ends at the last message it was given. The call row is written at once only where one is sure to be made.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 turns uuid[] · $4 calls uuid[] · $5 worker int · $6 lease interval · $7 provider text · $8 model text
-- $9 businesses with turns under way int[] · $10 how many int[] · $11 most of one business int
with asked as materialized (
  select q.*, s.business, row_number() over (partition by s.business order by s.due_at) + coalesce(w.n, 0) as nth
  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) as q (conversation, token, turn, call)
    join conversation_state s on s.conversation = q.conversation
    left join unnest($9::int[], $10::int[]) as w (business, n) on w.business = s.business),
locked as materialized (
  select q.conversation, q.token, q.call, m.id as cause, m.kind as cause_kind, m.seq as seq_from, coalesce(e.id, q.turn) as turn, coalesce(e.attempts, 0)::smallint + 1 as attempts,
    coalesce(e.fruitless, 0)::smallint + 1 as fruitless, coalesce(e.model, $8) as turn_model
  from asked q join conversation_state s on s.conversation = q.conversation
    cross join lateral (select m.id, m.kind, m.seq from inbound_message m where m.conversation = s.conversation and m.seq > s.handled_seq and m.verdict = 'turn' order by m.seq limit 1) m
    left join lateral (select t.id, t.attempts, t.fruitless, t.model from turn t where t.conversation = q.conversation and t.cause = m.id) e on true
  where coalesce(s.due_at, 'infinity') <= now() and s.unguarded = 0 and s.state = 'bot' and s.opted_out_at is null
    and (s.lease_token is null or s.lease_until < now()) and q.nth <= $11
    and m.seq > s.handled_seq  -- again: a row that was waited for is tested as it is now, but with the message that was found before
  order by s.conversation for no key update of s),
row as (
  update conversation_state s set lease_token = q.token, lease_worker = $5, lease_until = now() + $6::interval, window_opened_at = null, version = s.version + 1
  from locked q where s.conversation = q.conversation
  returning s.conversation, s.business, s.lease_token, s.handled_seq, s.guarded_seq, s.handoff_epoch, s.mode, s.locale,
    q.turn, q.call, q.cause, q.cause_kind, q.seq_from, q.attempts, q.fruitless, q.turn_model),
gathered as materialized (
  select r.*, b.slug, b.name as business_name, b.pack, b.engine, b.locales, b.time_zone, b.mode as business_mode, b.day_cap_usd, b.stale_after_s,
    k.id as account, k.channel, k.mode as account_mode, c.customer, p.name as customer_name,
    (select row (a.id, a.tool, a.arguments, a.shown, a.digest, a.confirmations_needed, a.prompt, a.at_seq, a.created_at, a.turn)
      from pending_action a where a.conversation = r.conversation and a.state = 'customer') as action,
    (select array_agg(row (m.seq, m.id, m.kind, m.body, m.button, m.quoted, m.channel_at, m.received_at, m.verdict, m.reason) order by m.seq)
      from inbound_message m where m.conversation = r.conversation and m.seq > r.handled_seq - 20 and m.seq <= r.guarded_seq) as messages,
    r.attempts = 1 and b.day_cap_usd is null and r.cause_kind in ('text', 'media') and b.mode <> 'off'
      and exists (select from inbound_message m where m.conversation = r.conversation and m.seq >= r.seq_from and m.verdict = 'turn' and m.reason is null) as certain
  from row r join business b on b.id = r.business join conversation c on c.id = r.conversation join channel_account k on k.id = c.account and k.business = r.business
    join customer p on p.id = c.customer),
t as (
  insert into turn (id, business, conversation, cause, seq_from, seq_to, engine, model)
  select turn, business, conversation, cause, seq_from, guarded_seq, engine, $8 from gathered
  on conflict (conversation, cause) do update set attempts = turn.attempts + 1, fruitless = turn.fruitless + 1, seq_to = excluded.seq_to, state = 'running'),
call as (
  insert into llm_call (id, business, conversation, turn, n, attempt, engine, provider, model)
  select call, business, conversation, turn, 1, attempts, engine, $7, $8 from gathered where certain and action is null)
select g.*, now() as now, case when g.certain and g.action is null then g.call end as call_open,
  (select array_agg(row (o.id, o.origin_kind, o.state, o.body, o.basis_seq, o.created_at, o.receipt or o.origin_kind <> 'turn'))
    from (select x.* from outbound x where x.conversation = g.conversation order by x.id desc limit 12) o) as replies,
  case when g.action is not null then (
    select row (o.state, o.body, case o.state when 'draft' then o.reason end, a.at_send_seq, a.started_at)
    from pending_action p join outbound o on o.id = p.prompt left join lateral (select * from send_attempt x where x.outbound = o.id order by x.started_at desc limit 1) a on true
    where p.conversation = g.conversation and p.state = 'customer') end as prompt,
  case when g.attempts > 1 then (select array_agg(row (i.attempt, i.n, i.answer) order by i.attempt, i.n) from iteration i where i.turn = g.turn) end as iterations,
  case when g.attempts > 1 then (select array_agg(row (x.n, x.position, x.call_id, x.tool, x.result)) from tool_call x where x.turn = g.turn) end as tool_calls
from gathered g

-- name: due
-- W1A: what the agent owes; each agent process looks by itself. Not locked: the claim is what decides.
-- $1 most int · $2 businesses with turns under way int[] · $3 how many int[] · $4 most of one business int
select d.conversation
from (select s.conversation, s.business, s.due_at, row_number() over (partition by s.business order by s.due_at) as nth
      from (select conversation, business, due_at from conversation_state
            where due_at <= now() and unguarded = 0 and (lease_token is null or lease_until < now()) and state = 'bot' and opted_out_at is null
            order by due_at limit 1000) s) d
  left join unnest($2::int[], $3::int[]) as w (business, n) on w.business = d.business
where d.nth + coalesce(w.n, 0) <= $4 order by d.due_at limit $1

-- name: begin_call
-- A2, before each call that A1 did not open: still mine, still allowed. The lease goes on, the last tool results and the call row are written.
-- Nothing returned: stop. `customer_seq` tells whether the customer went on writing.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 epochs int[] · $4 lease interval · $5 turns uuid[] · $6 calls uuid[] · $7 n int[] · $8 attempts int[] · $9 tries int[] · $10 provider text · $11 model text
-- $12 reserved numeric[] · $13 tool calls: turns uuid[] · $14 n int[] · $15 positions int[] · $16 call ids text[] · $17 tools text[] · $18 arguments text[] · $19 decisions text[] · $20 reasons text[] · $21 results text[]
with locked as materialized (
  select d.*, s.business, b.engine from unnest($1::uuid[], $2::uuid[], $3::int[], $5::uuid[], $6::uuid[], $7::int[], $8::int[], $9::int[], $12::numeric[])
    as d (conversation, token, epoch, turn, call, n, attempt, try, reserved) join conversation_state s on s.conversation = d.conversation
    join business b on b.id = s.business join conversation c on c.id = s.conversation join channel_account k on k.id = c.account and k.business = s.business
  where s.lease_token = d.token and s.handoff_epoch = d.epoch and s.state = 'bot' and s.opted_out_at is null
    and coalesce(s.mode, 'auto') <> 'off' and b.mode <> 'off' and coalesce(k.mode, 'auto') <> 'off'
  order by s.conversation for no key update of s),
row as (
  update conversation_state s set lease_until = now() + $4::interval from locked d where s.conversation = d.conversation
  returning s.conversation, s.customer_seq, s.superseded_in_row, s.unanswered_since, d.business, d.engine, d.turn, d.call, d.n, d.attempt, d.try, d.reserved),
call as (
  insert into llm_call (id, business, conversation, turn, n, attempt, try, engine, provider, model, reserved_usd)
  select call, business, conversation, turn, n, attempt, try, engine, $10, $11, reserved from row),
tools as (
  insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, reason, result)
  select x.turn, row.business, x.n, x.position, x.call_id, x.tool, x.arguments, x.decision, x.reason, x.result
  from unnest($13::uuid[], $14::int[], $15::int[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[])
    as x (turn, n, position, call_id, tool, arguments, decision, reason, result) join row on row.turn = x.turn
  on conflict do nothing)
select conversation, customer_seq, superseded_in_row, unanswered_since, now() as now from row

-- name: end_call
-- A3: the call is closed (always: it was spent); its answer is stored only with the lease, and then the attempt was not fruitless.
-- $1 calls uuid[] · $2 states text[] · $3 models answered text[] · $4 input int[] · $5 cached int[] · $6 output int[] · $7 reasoning int[] · $8 cost numeric[] · $9 latency ms int[] · $10 finish text[] · $11 errors text[]
-- $12 conversations uuid[] · $13 tokens uuid[] · $14 turns uuid[] · $15 attempts int[] · $16 n int[] · $17 answers text[] (null: nothing to store)
with d as materialized (
  select * from unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::int[], $6::int[], $7::int[], $8::numeric[], $9::int[], $10::text[], $11::text[],
      $12::uuid[], $13::uuid[], $14::uuid[], $15::int[], $16::int[], $17::text[])
    as d (call, state, model, tin, cached, tout, reasoning, cost, ms, finish, error, conversation, token, turn, attempt, n, answer)),
call as (
  update llm_call c set state = d.state, model_answered = d.model, input_tokens = d.tin, cached_tokens = d.cached, output_tokens = d.tout, reasoning_tokens = d.reasoning,
    cost_usd = d.cost, latency_ms = d.ms, finish = d.finish, error = d.error, ended_at = now()
  from d where c.id = d.call and c.ended_at is null),
stored as (
  insert into iteration (turn, business, attempt, n, answer)
  select d.turn, s.business, d.attempt, d.n, d.answer from d join conversation_state s on s.conversation = d.conversation and s.lease_token = d.token where d.answer is not null
  on conflict do nothing returning turn),
fruit as (
  update turn t set fruitless = 0 from stored where t.id = stored.turn)
select turn from stored

-- name: commit_plain
-- A3 and A4 in one, for the ordinary turn: its last call is closed and stored, its one reply queued, the conversation handled. Handed off
-- meanwhile: cut off, no reply. The only place that clears due_at, and only if the row shows nothing newer.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 turns uuid[] · $4 seq to bigint[] · $5 epochs int[] · $6 outbounds uuid[] · $7 texts text[] · $8 modes text[]
-- $9 calls uuid[] · $10 models answered text[] · $11 input int[] · $12 cached int[] · $13 output int[] · $14 reasoning int[] · $15 cost numeric[] · $16 latency ms int[] · $17 attempts int[] · $18 n int[] · $19 answers text[]
with d as materialized (
  select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::int[], $6::uuid[], $7::text[], $8::text[], $9::uuid[], $10::text[], $11::int[], $12::int[], $13::int[], $14::int[],
      $15::numeric[], $16::int[], $17::int[], $18::int[], $19::text[])
    as d (conversation, token, turn, seq_to, epoch, outbound, body, mode, call, model, tin, cached, tout, reasoning, cost, ms, attempt, n, answer)),
locked as materialized (
  select d.* from d join conversation_state s on s.conversation = d.conversation where s.lease_token = d.token order by s.conversation for no key update of s),
call as (
  update llm_call c set state = 'done', model_answered = d.model, input_tokens = d.tin, cached_tokens = d.cached, output_tokens = d.tout, reasoning_tokens = d.reasoning,
    cost_usd = d.cost, latency_ms = d.ms, finish = 'end', ended_at = now()
  from d where c.id = d.call and c.ended_at is null),
row as (
  update conversation_state s
  set handled_seq = greatest(s.handled_seq, d.seq_to), lease_token = null, lease_worker = null, lease_until = null, version = s.version + 1,
      due_at = case when s.customer_seq > greatest(s.handled_seq, d.seq_to) and s.state = 'bot' and s.opted_out_at is null then coalesce(s.due_at, now()) end
  from locked d where s.conversation = d.conversation
  returning d.*, s.business, s.handoff_epoch = d.epoch and s.state = 'bot' and s.opted_out_at is null as live, s.due_at is not null as again),
t as (
  update turn t set state = case when row.live then 'done' else 'cut_off' end, outcome = 'reply', seq_to = row.seq_to, ended_at = now() from row where t.id = row.turn),
o as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, ring_at)
  select outbound, business, conversation, 'turn', turn, seq_to, epoch, mode, body, now() + interval '2 s' from row where live
  on conflict (origin, part, origin_kind) do nothing),
i as (
  insert into iteration (turn, business, attempt, n, answer) select turn, business, attempt, n, answer from row on conflict do nothing)
select conversation, live, again from row

-- name: commit_full
-- A4 in full: what a turn came to besides or instead of a plain reply. One turn a row; nulls for what it has not.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 turns uuid[] · $4 seq to bigint[] · $5 epochs int[] · $6 turn states text[] · $7 outcomes text[] · $8 outbounds uuid[] · $9 texts text[] · $10 buttons text[]
-- $11 modes text[] · $12 receipts boolean[] · $13 ended action uuid[] · $14 its state text[] · $15 its reason text[] · $16 new action uuid[] · $17 tool text[] · $18 arguments text[] · $19 shown text[] · $20 digest bytea[]
-- $21 confirmations needed int[] · $22 customers uuid[] · $23 handoff reasons text[] · $24 prompt kept uuid[] (its action is asked again by this outbound) · $25 dead ids uuid[] · $26 held text[]
-- $27 tool calls: turns uuid[] · $28 n int[] · $29 positions int[] · $30 call ids text[] · $31 tools text[] · $32 arguments text[] · $33 decisions text[] · $34 reasons text[] · $35 results text[]
with d as materialized (
  select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::int[], $6::text[], $7::text[], $8::uuid[], $9::text[], $10::text[], $11::text[], $12::boolean[], $13::uuid[], $14::text[], $15::text[],
      $16::uuid[], $17::text[], $18::text[], $19::text[], $20::bytea[], $21::int[], $22::uuid[], $23::text[], $24::uuid[], $25::uuid[], $26::text[])
    as d (conversation, token, turn, seq_to, epoch, turn_state, outcome, outbound, body, buttons, mode, receipt, ended, ended_state, ended_reason,
      action, tool, arguments, shown, digest, needed, customer, handoff_reason, reprompted, dead, held)),
locked as materialized (
  select d.*, s.handoff_epoch = d.epoch and s.state = 'bot' and s.opted_out_at is null as live
  from d join conversation_state s on s.conversation = d.conversation where s.lease_token = d.token order by s.conversation for no key update of s),
row as (
  update conversation_state s
  set handled_seq = case when d.handoff_reason is not null then s.guarded_seq else greatest(s.handled_seq, d.seq_to) end,
      lease_token = null, lease_worker = null, lease_until = null, version = s.version + 1,
      due_at = case when d.handoff_reason is null and s.customer_seq > greatest(s.handled_seq, d.seq_to) and s.state = 'bot' and s.opted_out_at is null then coalesce(s.due_at, now()) end,
      unanswered_since = case when d.outbound is not null or s.customer_seq > d.seq_to or d.turn_state = 'superseded' then s.unanswered_since end,
      superseded_in_row = case d.turn_state when 'superseded' then s.superseded_in_row + 1 else s.superseded_in_row end,
      state = case when d.handoff_reason is not null then 'handoff' else s.state end,
      handoff_epoch = case when d.handoff_reason is not null and s.state = 'bot' then s.handoff_epoch + 1 else s.handoff_epoch end
  from locked d where s.conversation = d.conversation
  returning d.*, s.business, s.guarded_seq, s.handoff_epoch as epoch_now, s.due_at is not null as again),
t as (
  update turn t set state = case when row.live or row.receipt then row.turn_state else 'cut_off' end, outcome = row.outcome, seq_to = row.seq_to, ended_at = now() from row where t.id = row.turn),
ended as (
  update pending_action a set state = row.ended_state, reason = row.ended_reason, ended_at = now()
  from row where a.id = row.ended and a.state || '' in ('customer', 'operator') returning a.prompt),
unsent as (
  update outbound o set state = 'discarded', ring_at = null from ended where o.id = ended.prompt and o.state in ('queued', 'draft')),
asked_again as (
  update pending_action a set prompt = row.outbound from row where row.live and a.id = row.reprompted and a.state || '' = 'customer'),
asked as (
  insert into pending_action (id, business, conversation, customer, turn, tool, arguments, shown, digest, confirmations_needed, state, prompt, at_seq)
  select action, business, conversation, customer, turn, tool, arguments, shown, digest, needed, 'customer', outbound, guarded_seq from row
  where live and action is not null and (select count(*) from ended) >= 0),
o as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, held, body, buttons, receipt, action, ring_at)
  select outbound, business, conversation, 'turn', turn, seq_to, epoch_now, mode, held, body, buttons, receipt, coalesce(action, reprompted), now() + interval '2 s' from row
  where (live or receipt) and outbound is not null
  on conflict (origin, part, origin_kind) do nothing),
handed as (
  insert into handoff (conversation, business, epoch, reason) select conversation, business, epoch_now, handoff_reason from row where handoff_reason is not null
  on conflict do nothing),
buried as (
  insert into dead (id, business, stage, conversation, subject, reason) select dead, business, 'agent', conversation, turn, handoff_reason from row where dead is not null
  on conflict (stage, subject) do nothing),
tools as (
  insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, reason, result)
  select x.turn, row.business, x.n, x.position, x.call_id, x.tool, x.arguments, x.decision, x.reason, x.result
  from unnest($27::uuid[], $28::int[], $29::int[], $30::text[], $31::text[], $32::text[], $33::text[], $34::text[], $35::text[])
    as x (turn, n, position, call_id, tool, arguments, decision, reason, result) join row on row.turn = x.turn
  on conflict do nothing)
select conversation, live, again from row

-- name: release
-- R: the lease goes back and the row stays due, later; the attempt does not count.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 delays interval[] · $4 turns uuid[]
with locked as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::interval[], $4::uuid[]) as d (conversation, token, delay, turn) join conversation_state s on s.conversation = d.conversation
  where s.lease_token = d.token order by s.conversation for no key update of s),
row as (
  update conversation_state s
  set lease_token = null, lease_worker = null, lease_until = null, due_at = case when s.customer_seq > s.handled_seq then now() + d.delay end, version = s.version + 1
  from locked d where s.conversation = d.conversation returning d.turn),
t as (
  update turn t set fruitless = greatest(t.fruitless - 1, 0) from row where t.id = row.turn)
select turn from row

-- name: give_back
-- A turn that raised: the lease goes back, due after a pause; the attempt counts.
-- $1 conversation uuid · $2 token uuid · $3 delay interval
update conversation_state
set lease_token = null, lease_worker = null, lease_until = null, due_at = case when customer_seq > handled_seq then now() + $3::interval end, version = version + 1
where conversation = $1 and lease_token = $2 returning conversation

-- name: heartbeat
-- H: all leases of the process go on. Returns the tokens that are still ours.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 lease interval
with locked as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[]) as d (conversation, token) join conversation_state s on s.conversation = d.conversation
  where s.lease_token = d.token order by s.conversation for no key update of s)
update conversation_state s set lease_until = now() + $3::interval from locked d where s.conversation = d.conversation returning d.token

-- name: leaseholders
-- W2: workers that hold leases. Leased rows keep their due time, so the due index finds them.
select distinct lease_worker from conversation_state where due_at is not null and lease_worker is not null

-- name: void_leases
-- W2: a dead worker's leases are void. Only while its advisory lock is held by the caller. Its turns keep their place among those that are
-- due: whoever waited longest is not put behind a backlog.
-- $1 worker int
with locked as materialized (
  select conversation from conversation_state where due_at is not null and lease_worker = $1 order by conversation for no key update)
update conversation_state s
set lease_token = null, lease_worker = null, lease_until = null, due_at = case when s.customer_seq > s.handled_seq then least(s.due_at, now()) end, version = s.version + 1
from locked l where s.conversation = l.conversation and s.lease_worker = $1
returning s.conversation

-- name: lose_calls
-- W3: calls that nobody closed for three minutes count as lost; what they reserved counts as spent.
update llm_call set state = 'lost', error = 'the worker that made it did not close it', ended_at = now() where state = 'started' and started_at < now() - interval '3 min' returning id

-- name: lock_action
-- X: the row by token and state, then the action; missing when either is no longer what the turn decided on.
-- $1 conversation uuid · $2 token uuid · $3 action uuid · $4 epoch int
with row as materialized (
  select s.conversation, b.mode as business_mode, k.mode as account_mode, s.mode from conversation_state s
    join business b on b.id = s.business join conversation c on c.id = s.conversation join channel_account k on k.id = c.account and k.business = s.business
  where s.conversation = $1 and s.lease_token = $2 and s.state = 'bot' and s.opted_out_at is null and s.handoff_epoch = $4
  for no key update of s)
select a.id, a.tool, a.arguments, a.shown, a.digest, a.confirmations_needed, row.business_mode, row.account_mode, row.mode,
  (select count(*) from confirmation c where c.action = a.id) as confirmations
from row join pending_action a on a.conversation = row.conversation
where a.id = $3 and a.state = 'customer' for no key update of a

-- name: confirm
-- X: one confirmation, of one message; the same message again is the same confirmation. The action is locked, so the count can't race.
-- $1 action uuid · $2 business int · $3 message uuid
with before as materialized (select count(*)::int as n from confirmation where action = $1),
stored as (
  insert into confirmation (action, business, message, step) select $1, $2, $3, before.n + 1 from before on conflict do nothing returning step)
select before.n + (select count(*)::int from stored) as had from before

-- name: receipt
-- X: the proof that the action ran; one an action.
-- $1 receipt uuid · $2 business int · $3 conversation uuid · $4 action uuid · $5 turn uuid · $6 tool text · $7 digest bytea · $8 result text
insert into receipt (id, business, conversation, action, turn, tool, digest, result) values ($1, $2, $3, $4, $5, $6, $7, $8)

-- name: settle_prompt
-- X: the button of a prompt whose sending is unsettled proves that it arrived.
-- $1 outbound uuid
update outbound set state = 'sent', reason = null, sent_at = coalesce(sent_at, now()), ring_at = null
where id = $1 and (state in ('unknown', 'sending') or (state = 'draft' and reason = 'may_have_arrived')) returning id

-- name: receipt_of
-- Whether an action ran, asked after a connection was lost at COMMIT.
-- $1 action uuid
select id, result from receipt where action = $1

-- name: spent_today
-- What a business's calls of its local day cost; what is under way or lost counts as reserved.
-- $1 business int
select coalesce(sum(coalesce(c.cost_usd, c.reserved_usd, 0)), 0) as spent
from business b left join llm_call c on c.business = b.id and c.started_at >= date_trunc('day', now() at time zone b.time_zone) at time zone b.time_zone
where b.id = $1

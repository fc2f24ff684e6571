-- name: claim
-- A1, with A2 of the first call folded in: lease, turn, call row; returns all that the turn needs. A conversation missing from the result is
-- not due, leased, not judged yet, or over its business's share of this process: its row goes on owing. The gather sees the snapshot of the
-- statement's start, so a turn ends at the last message it was given. The call row is written at once only where one is sure to be made.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 turns uuid[] · $4 calls uuid[] · $5 worker int · $6 lease interval · $7 provider text · $8 model text
-- $9 businesses with turns under way int[] · $10 how many int[] · $11 most of one business int
with asked as materialized (
  select q.*, s.business, s.decision_owed as owed, row_number() over (partition by s.business order by s.due_at) + coalesce(w.n, 0) as nth
  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) as q (conversation, token, turn, call)
    join conversation_state s on s.conversation = q.conversation
    left join unnest($9::int[], $10::int[]) as w (business, n) on w.business = s.business),
locked as materialized (
  select q.conversation, q.token, q.call, coalesce(q.owed, m.id) as cause, case when q.owed is null then m.kind else 'decision' end as cause_kind,
    case when q.owed is null then m.seq else s.handled_seq end as seq_from, coalesce(e.id, q.turn) as turn, coalesce(e.attempts, 0)::smallint + 1 as attempts,
    coalesce(e.fruitless, 0)::smallint + 1 as fruitless, coalesce(e.model, $8) as turn_model
  from asked q join conversation_state s on s.conversation = q.conversation
    left join lateral (select m.id, m.kind, m.seq from inbound_message m where m.conversation = s.conversation and m.seq > s.handled_seq and m.verdict = 'turn' order by m.seq limit 1) m on true
    left join lateral (select t.id, t.attempts, t.fruitless, t.model from turn t where t.conversation = q.conversation and t.cause = coalesce(q.owed, m.id)) e on true
  where coalesce(s.due_at, 'infinity') <= now() and s.unguarded = 0 and s.state = 'bot' and s.opted_out_at is null
    and (s.lease_token is null or s.lease_until < now()) and q.nth <= $11
    -- again: a row that was waited for is tested as it is now, but with the message, or the decision, that was found before
    and s.decision_owed is not distinct from q.owed and (q.owed is not null or m.seq > s.handled_seq)
  order by s.conversation for no key update of s),
row as (
  update conversation_state s set lease_token = q.token, lease_worker = $5, lease_until = now() + $6::interval, window_opened_at = null, version = s.version + 1
  from locked q where s.conversation = q.conversation
  returning s.conversation, s.business, s.lease_token, s.handled_seq, s.guarded_seq, s.handoff_epoch, s.mode, s.locale, s.chain_length, s.chain_head, now() - s.due_at as waited,
    q.turn, q.call, q.cause, q.cause_kind, q.seq_from, q.attempts, q.fruitless, q.turn_model),
gathered as materialized (
  select r.*, b.slug, b.name as business_name, b.pack, b.engine, b.locales, b.time_zone, b.mode as business_mode, b.day_cap_usd, b.turn_cap_usd, b.conversation_cap_usd, b.stale_after_s,
    k.id as account, k.channel, k.mode as account_mode, c.customer, p.name as customer_name,
    (select array_agg(row (l.tool, l.level, l.asked)) from tool_level l where l.business = r.business) as levels,
    (select row (a.id, a.tool, a.arguments, a.shown, a.digest, a.summary, a.confirmations_needed, a.asked, a.state, a.at_seq, a.step, a.repeats, a.clock_from, a.prompt,
        a.decided, a.decided_why, a.decided_by, a.executing_since is not null)
      from pending_action a where a.conversation = r.conversation and a.state in ('customer', 'operator')) as action,
    (select array_agg(row (m.seq, m.id, m.kind, m.body, m.button, m.quoted, m.channel_at, m.received_at, m.verdict, m.reason, m.forwarded, m.edited_at is not null, m.edited_to, m.deleted_at is not null,
        case when m.kind = 'media' then (select array_agg(row (p.n, p.kind, p.mime, p.state, p.words) order by p.n) from media_part p where p.message = m.id) end) order by m.seq)
      from inbound_message m where m.conversation = r.conversation and m.seq > r.handled_seq - 20 and m.seq <= r.guarded_seq) as messages,
    r.attempts = 1 and coalesce(b.day_cap_usd, b.turn_cap_usd, b.conversation_cap_usd) is null and r.cause_kind in ('text', 'media') and b.mode <> 'off'
      and exists (select from inbound_message m where m.conversation = r.conversation and m.seq >= r.seq_from and m.verdict = 'turn' and m.reason is null) as certain
  from row r join business b on b.id = r.business join conversation c on c.id = r.conversation join channel_account k on k.id = c.account and k.business = r.business
    join customer p on p.id = c.customer),
t as (
  insert into turn (id, business, conversation, cause, cause_kind, seq_from, seq_to, engine, model)
  select turn, business, conversation, cause, case cause_kind when 'decision' then 'decision' else 'message' end, seq_from, guarded_seq, engine, $8 from gathered
  on conflict (conversation, cause) do update set attempts = turn.attempts + 1, fruitless = turn.fruitless + 1, seq_to = excluded.seq_to, state = 'running'),
call as (
  insert into llm_call (id, business, conversation, turn, n, attempt, engine, provider, model)
  select call, business, conversation, turn, 1, attempts, engine, $7, $8 from gathered where certain and action is not distinct from null)
select g.*, business_now() as now, case when g.certain and g.action is not distinct from null then g.call end as call_open,
  (select array_agg(row (o.id, o.origin_kind, o.state, o.body, o.basis_seq, o.created_at, o.receipt or o.origin_kind <> 'turn', o.asked_at))
    from (select x.* from outbound x where x.conversation = g.conversation order by x.id desc limit 12) o) as replies,
  case when g.action is distinct from null then (  -- `is not null` would ask it of every field
    select row (o.state, case o.state when 'draft' then o.reason end, a.at_send_seq, a.claimed_at, a.taken_at,
      -- what the channel calls it, and what we do to a channel that takes our name for it: dispatch's key of a prompt, which is one part
      (select array_agg(x.provider_id) from send_attempt x where x.outbound in (p.prompt, p.first_prompt) and x.provider_id is not null)
        || (select array_agg('out_' || replace(y.id::text, '-', '') || '_' || n || '_1') from outbound y, generate_series(1, y.round) n where y.id in (p.prompt, p.first_prompt)),
      -- an edit or deletion of what it came from that its own turn did not know of
      exists (select from (select t.seq_from, t.seq_to from turn t where t.id = p.turn offset 0) t
        cross join lateral (select m.verdict, coalesce(m.edited_to, m.deleted_at::text) as amended from inbound_message m
          where m.conversation = g.conversation and m.seq between t.seq_from and t.seq_to offset 0) m
        where m.verdict = 'turn' and m.amended is not null))
    from pending_action p join outbound o on o.id = p.prompt left join lateral (select * from send_attempt x where x.outbound = o.id order by x.started_at desc limit 1) a on true
    where p.conversation = g.conversation and p.state in ('customer', 'operator')) end as prompt,
  (select array_agg(row (x.tool, x.arguments, x.state, x.reason, x.ended_at + shift()) order by x.id) from (select * from pending_action a where a.conversation = g.conversation order by a.id desc limit 4) x
    where x.state not in ('customer', 'operator') and x.created_at > business_now() - interval '24 hours') as earlier,
  case when g.attempts > 1 then (select array_agg(row (i.attempt, i.n, i.answer) order by i.attempt, i.n) from iteration i where i.turn = g.turn) end as iterations,
  case when g.attempts > 1 then (select array_agg(row (x.n, x.position, x.call_id, x.tool, x.decision, x.reason, x.result)) from tool_call x where x.turn = g.turn) end as tool_calls
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
-- Nothing returned: stop. `customer_seq` tells whether the customer went on writing; a press is no such thing, as its turn asks no model.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 epochs int[] · $4 lease interval · $5 turns uuid[] · $6 calls uuid[] · $7 n int[] · $8 attempts int[] · $9 tries int[] · $10 provider text · $11 model text
-- $12 reserved numeric[] · $13 tool calls: turns uuid[] · $14 n int[] · $15 positions int[] · $16 call ids text[] · $17 tools text[] · $18 arguments text[] · $19 decisions text[] · $20 reasons text[] · $21 results text[] · $22 whys text[]
with locked as materialized (
  select d.*, s.business, b.engine from unnest($1::uuid[], $2::uuid[], $3::int[], $5::uuid[], $6::uuid[], $7::int[], $8::int[], $9::int[], $12::numeric[])
    as d (conversation, token, epoch, turn, call, n, attempt, try, reserved) join conversation_state s on s.conversation = d.conversation
    join business b on b.id = s.business join conversation c on c.id = s.conversation join channel_account k on k.id = c.account and k.business = s.business
  where s.lease_token = d.token and s.handoff_epoch = d.epoch and s.state = 'bot' and s.opted_out_at is null
    and coalesce(s.mode, 'auto') <> 'off' and b.mode <> 'off' and coalesce(k.mode, 'auto') <> 'off'
  order by s.conversation for no key update of s),
row as (
  update conversation_state s set lease_until = now() + $4::interval from locked d where s.conversation = d.conversation
  returning s.conversation, s.handled_seq, s.customer_seq, s.superseded_in_row, s.unanswered_since, d.business, d.engine, d.turn, d.call, d.n, d.attempt, d.try, d.reserved),
call as (
  insert into llm_call (id, business, conversation, turn, n, attempt, try, engine, provider, model, reserved_usd)
  select call, business, conversation, turn, n, attempt, try, engine, $10, $11, reserved from row
  on conflict (id, business) do nothing),  -- a call under a cap was written when its cost was reserved
tools as (
  insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, reason, result, why)
  select x.turn, row.business, x.n, x.position, x.call_id, x.tool, x.arguments, x.decision, x.reason, x.result, x.why
  from unnest($13::uuid[], $14::int[], $15::int[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[])
    as x (turn, n, position, call_id, tool, arguments, decision, reason, result, why) join row on row.turn = x.turn
  on conflict do nothing)
select conversation, superseded_in_row, unanswered_since, business_now() as now,
  coalesce((select max(m.seq) from inbound_message m where m.conversation = row.conversation and m.seq > row.handled_seq and m.verdict || '' <> 'stored' and m.kind <> 'button'), customer_seq) as customer_seq
from row

-- name: reserve
-- Before a call where a cap is set: the call's row, with what it may cost, if that fits under the caps of turn, conversation (24 hours) and business
-- (its local day). The day's row is locked last; its first use adds up what the day has cost so far. Returns the cap that forbids it; null: it fits.
-- $1 call uuid · $2 business int · $3 conversation uuid · $4 turn uuid · $5 n int · $6 attempt int · $7 try int · $8 engine text · $9 provider text · $10 model text · $11 reserved numeric
with b as materialized (
  select b.id, b.day_cap_usd, (business_now() at time zone b.time_zone)::date as day, b.time_zone,
    case when b.turn_cap_usd is not null and b.turn_cap_usd < $11 + (
        select coalesce(sum(coalesce(c.cost_usd, c.reserved_usd, 0)), 0) from llm_call c where c.conversation = $3 and c.turn = $4) then 'turn'
      when b.conversation_cap_usd is not null and b.conversation_cap_usd < $11 + (
        select coalesce(sum(coalesce(c.cost_usd, c.reserved_usd, 0)), 0) from llm_call c where c.conversation = $3 and c.started_at > now() - interval '24 hours') then 'conversation' end as barred_by
  from business b where b.id = $2),
day as (
  insert into budget as x (business, day, used_usd)
  select b.id, b.day, $11 + spent.usd
  from b cross join lateral (
    select coalesce(sum(coalesce(c.cost_usd, c.reserved_usd, 0)), 0) as usd from llm_call c
    where c.business = b.id and c.started_at >= (b.day::timestamp at time zone b.time_zone) - shift()) spent
  where b.barred_by is null and b.day_cap_usd >= $11 + spent.usd
  on conflict (business, day) do update set used_usd = x.used_usd + $11 where x.used_usd + $11 <= (select day_cap_usd from b)
  returning used_usd),
fits as materialized (
  select b.id from b where b.barred_by is null and (b.day_cap_usd is null or exists (select from day))),
call as (
  insert into llm_call (id, business, conversation, turn, n, attempt, try, engine, provider, model, reserved_usd)
  select $1, id, $3, $4, $5, $6, $7, $8, $9, $10, $11 from fits)
select case when not exists (select from fits) then coalesce((select b.barred_by from b), 'day') end as barred_by

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
  from d where c.id = d.call and c.ended_at is null
  returning c.business, c.reserved_usd, coalesce(c.cost_usd, c.reserved_usd) - c.reserved_usd as change, c.started_at),
day as (
  update budget x set used_usd = x.used_usd + y.change
  from (select b.id, ((call.started_at + shift()) at time zone b.time_zone)::date as day, sum(call.change) as change
        from call join business b on b.id = call.business where call.reserved_usd is not null group by 1, 2 order by 1, 2) y
  where x.business = y.id and x.day = y.day),
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
-- $20 places in the chain int[] · $21 headers text[] · $22 their digests bytea[] · $23 parts text[] · $24 asked timestamptz[]
with d as materialized (
  select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::int[], $6::uuid[], $7::text[], $8::text[], $9::uuid[], $10::text[], $11::int[], $12::int[], $13::int[], $14::int[],
      $15::numeric[], $16::int[], $17::int[], $18::int[], $19::text[], $20::int[], $21::text[], $22::bytea[], $23::text[], $24::timestamptz[])
    as d (conversation, token, turn, seq_to, epoch, outbound, body, mode, call, model, tin, cached, tout, reasoning, cost, ms, attempt, n, answer, chain_n, header, digest, parts, asked_at)),
locked as materialized (
  select d.* from d join conversation_state s on s.conversation = d.conversation where s.lease_token = d.token order by s.conversation for no key update of s),
call as (
  update llm_call c set state = 'done', model_answered = d.model, input_tokens = d.tin, cached_tokens = d.cached, output_tokens = d.tout, reasoning_tokens = d.reasoning,
    cost_usd = d.cost, latency_ms = d.ms, finish = 'end', ended_at = now()
  from d where c.id = d.call and c.ended_at is null),
row as (
  update conversation_state s
  set handled_seq = greatest(s.handled_seq, d.seq_to), lease_token = null, lease_worker = null, lease_until = null, version = s.version + 1,
      chain_length = d.chain_n, chain_head = d.digest,
      due_at = case when (s.customer_seq > greatest(s.handled_seq, d.seq_to) or s.decision_owed is not null) and s.state = 'bot' and s.opted_out_at is null then coalesce(s.due_at, now()) end
  from locked d where s.conversation = d.conversation
  returning d.*, s.business, s.handoff_epoch = d.epoch and s.state = 'bot' and s.opted_out_at is null as live, s.due_at is not null as again),
t as (
  update turn t set state = case when row.live then 'done' else 'cut_off' end, outcome = 'reply', seq_to = row.seq_to, ended_at = now() from row where t.id = row.turn),
o as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, ring_at, asked_at)
  select outbound, business, conversation, 'turn', turn, seq_to, epoch, mode, body, now() + interval '2 s', asked_at from row where live
  on conflict (origin, part, origin_kind) do nothing),
i as (
  insert into iteration (turn, business, attempt, n, answer) select turn, business, attempt, n, answer from row on conflict do nothing),
e as (
  insert into envelope (turn, business, conversation, n, header, digest, parts) select turn, business, conversation, chain_n, header, digest, parts from row)
select conversation, live, again from row

-- name: commit_full
-- A4 in full: what one turn came to besides or instead of a plain reply; nulls for what it has not. A decision's turn that is not live leaves its
-- action and its debt as they are: it runs when the conversation is the bot's again.
-- $1 conversation uuid · $2 token uuid · $3 turn uuid · $4 seq to bigint · $5 epoch int · $6 turn state text · $7 outcome text · $8 outbound uuid · $9 text text · $10 buttons text · $11 mode text · $12 receipt boolean · $13 held text
-- $14 ended action uuid · $15 its state text · $16 its reason text · $17 the result its call gets text
-- $18 new action uuid · $19 tool text · $20 arguments text · $21 shown text · $22 digest bytea · $23 summary text · $24 confirmations needed int · $25 asked text · $26 waits for text · $27 call n int · $28 call position int · $29 customer uuid
-- $30 action asked again uuid · $31 step int · $32 repeats int · $33 clock from timestamptz · $34 action that waits for an operator now uuid
-- $35 handoff reason text · $36 dead id uuid · $37 flag text · $38 decides boolean · $39 place in the chain int · $40 header text · $41 its digest bytea · $42 parts text
-- $43 tool calls: n int[] · $44 positions int[] · $45 call ids text[] · $46 tools text[] · $47 arguments text[] · $48 decisions text[] · $49 reasons text[] · $50 results text[] · $51 whys text[] · $52 asked timestamptz
with locked as materialized (
  select s.conversation, s.handoff_epoch = $5 and s.state = 'bot' and s.opted_out_at is null as live
  from conversation_state s where s.conversation = $1 and s.lease_token = $2 for no key update of s),
row as (
  update conversation_state s
  set handled_seq = case when $35::text is not null then s.guarded_seq else greatest(s.handled_seq, $4) end,
      lease_token = null, lease_worker = null, lease_until = null, version = s.version + 1, chain_length = $39, chain_head = $41,
      decision_owed = case when $38 and d.live then null else s.decision_owed end,
      due_at = case when $35::text is null and (s.customer_seq > greatest(s.handled_seq, $4) or (s.decision_owed is not null and not $38)) and s.state = 'bot' and s.opted_out_at is null
        then coalesce(s.due_at, now()) end,
      unanswered_since = case when $8::uuid is not null or s.customer_seq > $4 or $6 = 'superseded' then s.unanswered_since end,
      superseded_in_row = case $6 when 'superseded' then s.superseded_in_row + 1 else s.superseded_in_row end,
      state = case when $35::text is not null then 'handoff' else s.state end,
      handoff_epoch = case when $35::text is not null and s.state = 'bot' then s.handoff_epoch + 1 else s.handoff_epoch end
  from locked d where s.conversation = d.conversation
  returning s.conversation, s.business, s.guarded_seq, s.handoff_epoch as epoch_now, s.due_at is not null as again, d.live),
t as (
  update turn t set state = case when row.live or $12 then $6 else 'cut_off' end, outcome = $7, seq_to = $4, ended_at = now() from row where t.id = $3),
ended as (
  update pending_action a set state = $15, reason = $16, ended_at = now()
  from row where a.id = $14 and a.state || '' in ('customer', 'operator') and (row.live or not $38) returning a.prompt, a.turn, a.call_n, a.call_position),
answered as (
  update tool_call c set result = $17 from ended where $17::text is not null and c.turn = ended.turn and c.n = ended.call_n and c.position = ended.call_position),
unsent as (
  update outbound o set state = 'discarded', ring_at = null from ended where o.id = ended.prompt and o.state in ('queued', 'draft')),
asked_before as materialized (
  select p.prompt from row join pending_action p on p.id = $30 where row.live),
asked_again as (
  update pending_action a set prompt = $8, at_seq = row.guarded_seq, step = $31, repeats = $32, clock_from = $33,
    first_prompt = case when a.step = $31 then coalesce(a.first_prompt, a.prompt) end
  from row where row.live and a.id = $30 and a.state || '' = 'customer'),
unsure as (
  update outbound o set state = 'superseded', ring_at = null from asked_before where o.id = asked_before.prompt and o.state in ('queued', 'draft')),
to_operator as (
  update pending_action a set state = 'operator', waits_until = business_now() + b.approval_hours * interval '1 hour'
  from row join business b on b.id = row.business where row.live and a.id = $34 and a.state || '' = 'customer'),
asked as (
  insert into pending_action (id, business, conversation, customer, turn, tool, arguments, shown, digest, summary, confirmations_needed, asked, state, prompt, at_seq, call_n, call_position, waits_until)
  select $18, row.business, row.conversation, $29, $3, $19, $20, $21, $22, $23, $24, $25, $26, $8, row.guarded_seq, $27, $28,
    case $26 when 'operator' then business_now() + b.approval_hours * interval '1 hour' end
  from row join business b on b.id = row.business where row.live and $18::uuid is not null and (select count(*) from ended) >= 0),
o as (
  insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, held, body, buttons, receipt, action, ring_at, asked_at)
  select $8, business, conversation, 'turn', $3, $4, epoch_now, $11, $13, $9, $10, $12, coalesce($18, $30, $34), now() + interval '2 s', $52 from row
  where (live or $12) and $8::uuid is not null
  on conflict (origin, part, origin_kind) do nothing),
handed as (
  insert into handoff (conversation, business, epoch, reason) select conversation, business, epoch_now, $35 from row where $35::text is not null
  on conflict do nothing),
buried as (
  insert into dead (id, business, stage, conversation, subject, reason) select $36, business, 'agent', conversation, $3, $35 from row where $36::uuid is not null
  on conflict (stage, subject) do nothing),
flagged as (
  insert into flag (message, business, conversation, reason)
  select m.id, row.business, row.conversation, $37 from row
    join lateral (select y.id from inbound_message y where y.conversation = row.conversation and y.seq <= $4 order by y.seq desc limit 1) m on true
  where $37::text is not null
  on conflict do nothing),
tools as (
  insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, reason, result, why)
  select $3, row.business, x.n, x.position, x.call_id, x.tool, x.arguments, x.decision, x.reason, x.result, x.why
  from unnest($43::int[], $44::int[], $45::text[], $46::text[], $47::text[], $48::text[], $49::text[], $50::text[], $51::text[])
    as x (n, position, call_id, tool, arguments, decision, reason, result, why), row
  on conflict do nothing),
e as (
  insert into envelope (turn, business, conversation, n, header, digest, parts) select $3, business, conversation, $39, $40, $41, $42 from row)
select conversation, live, again from row

-- name: release
-- R: the lease goes back and the row stays due, later; the attempt does not count.
-- $1 conversations uuid[] · $2 tokens uuid[] · $3 delays interval[] · $4 turns uuid[]
with locked as materialized (
  select d.* from unnest($1::uuid[], $2::uuid[], $3::interval[], $4::uuid[]) as d (conversation, token, delay, turn) join conversation_state s on s.conversation = d.conversation
  where s.lease_token = d.token order by s.conversation for no key update of s),
row as (
  update conversation_state s
  set lease_token = null, lease_worker = null, lease_until = null, due_at = case when s.customer_seq > s.handled_seq or s.decision_owed is not null then now() + d.delay end,
    version = s.version + 1
  from locked d where s.conversation = d.conversation returning d.turn),
t as (
  update turn t set fruitless = greatest(t.fruitless - 1, 0) from row where t.id = row.turn)
select turn from row

-- name: give_back
-- A turn that raised: the lease goes back, due after a pause; the attempt counts.
-- $1 conversation uuid · $2 token uuid · $3 delay interval
update conversation_state
set lease_token = null, lease_worker = null, lease_until = null, due_at = case when customer_seq > handled_seq or decision_owed is not null then now() + $3::interval end, version = version + 1
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
set lease_token = null, lease_worker = null, lease_until = null, due_at = case when s.customer_seq > s.handled_seq or s.decision_owed is not null then least(s.due_at, now()) end, version = s.version + 1
from locked l where s.conversation = l.conversation and s.lease_worker = $1
returning s.conversation

-- name: lose_calls
-- W3: calls that nobody closed for three minutes count as lost; what they reserved counts as spent.
update llm_call set state = 'lost', error = 'the worker that made it did not close it', ended_at = now() where state = 'started' and started_at < now() - interval '3 min' returning id

-- name: lock_row
-- X: the row by token and state, with both dials as they are now; missing when it is no longer what the turn decided on.
-- $1 conversation uuid · $2 token uuid · $3 epoch int
select s.conversation, b.mode as business_mode, k.mode as account_mode, s.mode,
  (select array_agg(row (l.tool, l.level, l.asked)) from tool_level l where l.business = s.business) as levels
from conversation_state s join business b on b.id = s.business join conversation c on c.id = s.conversation join channel_account k on k.id = c.account and k.business = s.business
where s.conversation = $1 and s.lease_token = $2 and s.state = 'bot' and s.opted_out_at is null and s.handoff_epoch = $3
for no key update of s

-- name: lock_action
-- X: then the action, if it still waits, for whomever the turn found it waiting for.
-- $1 conversation uuid · $2 action uuid · $3 waits for text
select a.tool, a.arguments, a.shown, a.digest, a.summary, a.confirmations_needed, a.asked, a.step, a.repeats, a.decided, a.decided_why, a.decided_by, a.executing_since is not null as executing,
  (select count(*) from confirmation c where c.action = a.id)::int as confirmations
from pending_action a where a.conversation = $1 and a.id = $2 and a.state = $3 for no key update of a

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
update outbound set state = 'sent', reason = null, sent_at = coalesce(sent_at, business_now()), ring_at = null
where id = $1 and (state in ('unknown', 'sending') or (state = 'draft' and reason = 'may_have_arrived')) returning id

-- name: record_tool
-- X: an allowed call's result, in the transaction of its receipt; the attempt was not fruitless.
-- $1 turn uuid · $2 business int · $3 n int · $4 position int · $5 call id text · $6 tool text · $7 arguments text · $8 decision text · $9 reason text · $10 result text · $11 why text
with stored as (
  insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, reason, result, why) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
  on conflict (turn, n, position) do update set result = excluded.result where tool_call.result = '{"status":"executing"}' returning turn)
update turn t set fruitless = 0 where t.id = $1 returning t.id

-- name: executing
-- X: committed before an effect outside the record is called for.
-- $1 action uuid
update pending_action set executing_since = now() where id = $1 returning id

-- name: receipt_of
-- Whether an action ran, asked after a connection was lost at COMMIT.
-- $1 action uuid
select result from receipt where action = $1

-- name: receipts_of
-- What a turn did so far.
-- $1 turn uuid
select action, tool, digest, result from receipt where turn = $1 order by id

-- name: called
-- The tools whose calls a turn stored so far.
-- $1 turn uuid
select distinct tool from tool_call where turn = $1

-- name: keep_page
-- What prompts say of a business, once for each text.
-- $1 business int · $2 digest bytea · $3 text text
insert into prompt_page (business, digest, body) values ($1, $2, $3) on conflict do nothing

-- name: any_cap
-- Whether any business limits what its model calls may cost; asked once, at start.
select exists (select from business where coalesce(day_cap_usd, turn_cap_usd, conversation_cap_usd) is not null) as any

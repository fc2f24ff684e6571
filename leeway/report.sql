-- name: models
-- Model calls by model, engine and iteration, of a business or of all, from an instant on. What is under way is counted apart; latency is that of
-- calls that were answered; cost is that of calls whose price is known, null where none is.
-- $1 slug text (null: all) · $2 from timestamptz (null: all)
select c.provider, c.model, c.engine, c.n::int as iteration, count(*) filter (where c.state <> 'started')::int as calls,
  count(*) filter (where c.state in ('failed', 'lost'))::int as errors, count(*) filter (where c.state = 'started')::int as under_way,
  coalesce(sum(c.input_tokens), 0)::bigint as input_tokens, coalesce(sum(c.cached_tokens), 0)::bigint as cached_tokens,
  coalesce(sum(c.output_tokens), 0)::bigint as output_tokens, coalesce(sum(c.reasoning_tokens), 0)::bigint as reasoning_tokens,
  sum(c.cost_usd) as cost_usd, count(*) filter (where c.state <> 'started' and c.cost_usd is null)::int as calls_of_unknown_cost,
  percentile_disc(0.5) within group (order by c.latency_ms) filter (where c.state = 'done')::int as latency_ms_p50,
  percentile_disc(0.95) within group (order by c.latency_ms) filter (where c.state = 'done')::int as latency_ms_p95
from business b join llm_call c on c.business = b.id
where b.slug = coalesce($1::text, b.slug) and c.started_at >= coalesce($2::timestamptz, '-infinity')
group by c.provider, c.model, c.engine, c.n order by c.provider, c.model, c.engine, c.n

-- name: conversations
-- What conversations cost: how many had calls, of how many every call's cost is known, and the mean of these.
-- $1 slug text (null: all) · $2 from timestamptz (null: all)
select count(*)::int as count, (count(*) filter (where x.unknown = 0))::int as of_known_cost, avg(x.cost_usd) filter (where x.unknown = 0) as mean_usd
from (select sum(c.cost_usd) as cost_usd, count(*) filter (where c.cost_usd is null) as unknown from business b join llm_call c on c.business = b.id
      where b.slug = coalesce($1::text, b.slug) and c.started_at >= coalesce($2::timestamptz, '-infinity') and c.state <> 'started' group by c.conversation) x

-- name: dearest
-- The conversations that cost most, as far as it is known.
-- $1 slug text (null: all) · $2 from timestamptz (null: all) · $3 most int
select c.conversation, b.slug as business, count(*)::int as calls, sum(c.cost_usd) as cost_usd, (count(*) filter (where c.cost_usd is null))::int as calls_of_unknown_cost
from business b join llm_call c on c.business = b.id
where b.slug = coalesce($1::text, b.slug) and c.started_at >= coalesce($2::timestamptz, '-infinity') and c.state <> 'started'
group by c.conversation, b.slug having sum(c.cost_usd) is not null order by sum(c.cost_usd) desc, c.conversation limit $3

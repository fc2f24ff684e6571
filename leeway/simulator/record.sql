-- name: arrived
-- What the telephones of a sim account show, in order, each with who said it.
-- $1 the account's address text
select d.key, d.user_id, d.body, d.buttons, o.origin_kind from sim_delivery d join channel_account a on a.id = d.account and a.business = d.business
  left join outbound o on o.id = substr(d.key, 5, 32)::uuid
where a.channel = 'sim' and a.address = $1 order by d.delivered_at, d.key

-- name: handoffs
-- Handoffs of a business, those that are over as well, in order.
-- $1 business int
select h.conversation, h.epoch, h.reason, h.released_at is not null as released, i.user_id from handoff h join channel_identity i on i.conversation = h.conversation
where h.business = $1 order by h.opened_at, h.conversation

-- name: conversation
-- The conversation of a telephone, and how it stands.
-- $1 the account's address text · $2 user id text
select s.conversation, s.state, s.opted_out_at is not null as opted_out from channel_account a join channel_identity i on i.account = a.id join conversation_state s on s.conversation = i.conversation
where a.channel = 'sim' and a.address = $1 and i.user_id = $2

-- name: latest
-- The latest business time of which a business's record tells. Null: it tells of nothing.
-- $1 business int
select greatest((select max(m.received_at) from inbound_message m where m.business = $1), (select max(o.created_at) from outbound o where o.business = $1)) as at

-- name: sooner
-- Business time was moved on: reminders that wait for the end of quiet hours wait for so much less.
-- $1 business int · $2 by interval
update outbound set not_before = not_before - $2::interval, ring_at = ring_at - $2::interval where business = $1 and state || '' = 'queued' and origin_kind = 'reminder' and not_before is not null

-- name: owed
-- What the services still owe a business: with nothing of it, nothing more happens by itself. What waits for a person, for quiet hours or for an
-- account that is off is not owed.
-- $1 business int
select 'a message is not judged' as what from conversation_state s where s.business = $1 and (s.unguarded > 0 or s.guard_due_at is not null)
union all select 'a turn is due' from conversation_state s where s.business = $1 and s.due_at is not null and s.state = 'bot' and s.opted_out_at is null
union all select 'a turn is under way' from conversation_state s where s.business = $1 and s.lease_token is not null
union all select 'an approval was decided and not carried out' from conversation_state s where s.business = $1 and s.decision_owed is not null and s.state = 'bot' and s.opted_out_at is null
union all select 'a send is under way' from conversation_state s where s.business = $1 and s.sending_attempt is not null
union all select 'a reply is ' || o.state from outbound o join conversation c on c.id = o.conversation join channel_account k on k.id = c.account
  where o.business = $1 and o.state in ('queued', 'sending') and k.state = 'on'
    and not (o.state = 'queued' and o.origin_kind = 'reminder' and o.not_before is not null and o.not_before > now())

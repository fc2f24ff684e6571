-- name: claim
-- L0: Twilio's accounts to be asked for messages that no webhook brought, for this process alone until the claim ends. `looked_at` stays: a process
-- that dies over it leaves nothing out.
-- $1 how old the last look is at least interval · $2 how long a claim holds interval
update channel_account a set looking_until = now() + $2::interval
from (
  select id, business from channel_account
  where channel = 'twilio' and state = 'on' and (looked_at is null or looked_at <= now() - $1::interval) and (looking_until is null or looking_until < now())
  order by id for no key update skip locked) due
where a.id = due.id and a.business = due.business
returning a.id, a.address, a.secrets, a.looked_at, now() as at, a.looking_until

-- name: done
-- L1: what was found is committed. Nothing where another process has the claim by now.
-- $1 account int · $2 the claim's end timestamptz · $3 when the look began timestamptz
update channel_account a set looked_at = $3, looking_until = null where a.id = $1 and a.looking_until = $2

-- name: give_back
-- L2: the look failed, the next one begins where this one was to begin. $1 account int · $2 the claim's end timestamptz
update channel_account a set looking_until = null where a.id = $1 and a.looking_until = $2

-- name: accounts
-- How to reach an account: its settings, its sealed secrets and the callback address.
-- $1 account int
select a.id, a.business, a.channel, a.address, a.secrets, a.settings, a.callback_url from channel_account a where a.id = $1

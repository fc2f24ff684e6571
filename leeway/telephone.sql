-- name: deliveries
-- What a simulated telephone shows.
-- $1 the account's address text · $2 user id text
select d.key, d.body, d.buttons from sim_delivery d join channel_account a on a.id = d.account
where a.channel = 'sim' and a.address = $1 and d.user_id = $2 order by d.delivered_at, d.key

-- name: ping
-- Whether the database answers.
select 1 as one

-- name: publisher
-- Whose feeds they are, by the name in the URL.
-- $1 slug text
select id, pack, time_zone, locales[1] as locale, business_now() as now from business where slug = $1

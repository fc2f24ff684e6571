-- name: business_of_draft
-- Whose pack, zone and languages a draft's check goes by.
-- $1 outbound uuid
select b.pack, b.time_zone, b.locales from outbound o join business b on b.id = o.business where o.id = $1

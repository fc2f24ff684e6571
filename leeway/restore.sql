-- name: others
-- Connections of services, and of commands other than this one, that are open on this database.
select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'leeway' and pid <> pg_backend_pid()

-- name: businesses
-- All of them: each gets an entry in its audit log.
select id, slug from business order by id

-- name: hold
-- Replies that the back-up knows as not sent, and that were due: after it was made they may have gone out, so people decide about each. Every claim of
-- their conversations must look again. How many, by business.
with held as (
  update outbound set state = 'draft', reason = 'may_have_arrived', ring_at = null
  where state = 'queued' and coalesce(not_before, '-infinity') <= now()
  returning business, conversation),
seen as (
  update conversation_state s set version = s.version + 1 from (select distinct conversation from held) h where s.conversation = h.conversation)
select b.slug, count(*)::int as n from held join business b on b.id = held.business group by b.slug

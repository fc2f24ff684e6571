-- name: content
-- What was fetched of a part. $1 business int · $2 message uuid · $3 n int
select content from media_part where business = $1 and message = $2 and n = $3 and state = 'stored'

-- name: keep_words
-- What a machine made of it, once: an attempt that lost its lease changes nothing that was used.
-- $1 business int · $2 message uuid · $3 n int · $4 words text
update media_part p set words = $4 where p.business = $1 and p.message = $2 and p.n = $3 and p.words is null returning p.n

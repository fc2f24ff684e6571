-- What the metrics need to know of a reply: since when the customer has waited for it.

alter table outbound add column asked_at timestamptz;
comment on column outbound.asked_at is 'when the oldest message that it answers was received, in business time, null: it answers none';

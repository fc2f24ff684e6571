-- Real channels: whose address a payload names, people with ids beside numbers, edits and deletions, typed parts of media, rates, and what the
-- channels say of their own about our sends.

alter table channel_account
  add column provider_address text,
  add column own_number text,
  add column settings text not null default '{}',
  add column disabled_why text,
  add column looked_at timestamptz,
  add column looking_until timestamptz,
  add column poll_offset bigint;
comment on column channel_account.provider_address is 'what payloads name it by: phone-number id, number, bot id, of one business only, own_number: E.164, a sender with it is ourselves';
comment on column channel_account.settings is 'JSON, no secrets, shared/channels/accounts.py says which';
comment on column channel_account.looked_at is 'when messages that no webhook brought were last fetched, looking_until: by a process that looks now, poll_offset: where Telegram''s updates go on';
create unique index channel_account_provider on channel_account (channel, provider_address);
grant select (provider_address, own_number, settings, disabled_why) on channel_account to leeway_tenant;
grant update (disabled_why, looked_at, looking_until, poll_offset) on channel_account to leeway_pipeline;

alter table account_rate add column next_at timestamptz;
comment on column account_rate.next_at is 'when the account''s pace allows the next send but for its burst: moved on by each';
grant update (next_at) on account_rate to leeway_pipeline;

alter table channel_identity add column reply_to text;
comment on column channel_identity.reply_to is 'where replies go, where that is not the user id: the number as the channel states it';
create index channel_identity_reply_to on channel_identity (account, reply_to) where reply_to is not null;
grant update (user_id, reply_to, customer) on channel_identity to leeway_pipeline;
grant update (customer) on conversation to leeway_pipeline;

alter table conversation_state
  add column window_closed_at timestamptz,
  add column edits_wait boolean not null default false;
comment on column conversation_state.window_closed_at is 'when the channel said that its window for free text is closed, edits_wait: an edit or deletion came before what it concerns';
grant update (window_closed_at, edits_wait) on conversation_state to leeway_pipeline;

alter table inbound_message
  add column forwarded boolean not null default false,
  add column edited_at timestamptz, add column edited_to text, add column deleted_at timestamptz;
comment on column inbound_message.edited_to is 'the text of an edit that came after a turn had taken the message; before that the edit replaces the body';
grant update (body, kind, edited_at, edited_to, deleted_at) on inbound_message to leeway_pipeline;
grant update (raw) on inbound_payload to leeway_pipeline;

alter table send_attempt
  add column taken_at timestamptz, add column segments smallint, add column billing text, add column by_template boolean not null default false;
comment on column send_attempt.taken_at is 'the channel''s own time of taking it, billing: what it says it charges for, segments: of an SMS';
grant update (taken_at, segments, billing, by_template) on send_attempt to leeway_pipeline;

alter table held_status add column trouble text, add column at timestamptz, add column billing text;

-- What a message carries beside its text. Where `due_at` is set its content is fetched; `words` are a description, or what a model made of it.
create table media_part (
  message uuid, business int not null,
  n smallint not null,
  kind text not null check (kind in ('audio', 'image', 'video', 'document', 'sticker', 'location', 'contact', 'order', 'other')),
  mime text, name text, reference text,
  state text not null default 'kept' check (state in ('kept', 'due', 'stored', 'refused', 'failed')),
  reason text,
  tries smallint not null default 0, due_at timestamptz,
  bytes int, content bytea,
  words text,
  stored_at timestamptz not null default now(),
  primary key (message, n, business),
  foreign key (message, business) references inbound_message (id, business));
create index media_part_due on media_part (due_at) where due_at is not null;
select secure_table('media_part', 'business');
grant select on media_part to leeway_pipeline, leeway_tenant;
grant insert on media_part to leeway_pipeline;
grant update (state, reason, tries, due_at, bytes, content, words) on media_part to leeway_pipeline;

-- A change of number or id that a channel announced: the new id is a stranger until a person links it.
create table identity_change (
  id uuid, business int not null,
  account int not null,
  old_user_id text not null, new_user_id text not null,
  announced_at timestamptz not null default business_now(),
  decided text check (decided in ('linked', 'refused')), decided_by text, decided_at timestamptz,
  primary key (id, business),
  unique (account, old_user_id, new_user_id),
  foreign key (account, business) references channel_account (id, business));
create index identity_change_open on identity_change (business, announced_at) where decided is null;
select secure_table('identity_change', 'business');
grant select on identity_change to leeway_pipeline, leeway_tenant;
grant insert on identity_change to leeway_pipeline;

-- The dials, confirmations in steps, approvals, operators' decisions, caps, handoffs with a clock, reminders, and the evidence of every turn.

-- Business time is Postgres's, plus what a simulation has shifted it by (`leeway.shift` of the session; nobody sets it in earnest). Technical time,
-- of leases and due times, is never shifted.
create function shift() returns interval language sql stable as $$ select coalesce(nullif(current_setting('leeway.shift', true), '')::interval, interval '0') $$;
create function business_now() returns timestamptz language sql stable as $$ select now() + coalesce(nullif(current_setting('leeway.shift', true), '')::interval, interval '0') $$;
alter table inbound_message alter column received_at set default business_now();
alter table outbound alter column created_at set default business_now();
alter table pending_action alter column created_at set default business_now();
alter table handoff alter column opened_at set default business_now();

alter table business
  add column turn_cap_usd numeric(12, 6) check (turn_cap_usd >= 0),
  add column conversation_cap_usd numeric(12, 6) check (conversation_cap_usd >= 0),
  add column approval_hours int not null default 24 check (approval_hours between 1 and 168),
  add column handoff_remind_min int not null default 15 check (handoff_remind_min > 0),
  add column handoff_tell_min int not null default 60 check (handoff_tell_min > 0),
  add column quiet_from time not null default '21:00', add column quiet_to time not null default '08:00',
  add column reminder_hours int not null default 24 check (reminder_hours between 0 and 168);
comment on column business.turn_cap_usd is 'what the model calls of one turn may cost, conversation_cap_usd: of one conversation in 24 hours, null: no cap';
comment on column business.quiet_from is 'from then to quiet_to, local time, reminders wait, answers do not';
comment on column business.reminder_hours is 'how long before what it reminds of, 0: none are sent';

alter table channel_account add column carrier_takes_cancel boolean not null default false;
comment on column channel_account.carrier_takes_cancel is 'its carrier takes CANCEL as an opt-out, so it is one';
grant select (carrier_takes_cancel) on channel_account to leeway_tenant;

alter table conversation_state
  add column decision_owed uuid,
  add column chain_length int not null default 0, add column chain_head bytea;
comment on column conversation_state.decision_owed is 'an approval that was decided, and whose turn has not run';

-- How freely a tool may run, where it is not the pack's own default.
create table tool_level (
  business int references business,
  tool text not null,
  level int not null check (level between 0 and 4),
  asked text check (asked in ('customer', 'operator', 'both')),
  set_at timestamptz not null default now(), set_by text not null,
  primary key (business, tool));
comment on column tool_level.asked is 'who is asked where the level asks, null: as the pack says';

alter table tool_call add column why text;
comment on column tool_call.why is 'what the gate decided by: level, risk, floor, who is asked, canonical JSON';

alter table pending_action
  add column asked text not null default 'customer' check (asked in ('customer', 'operator', 'both')),
  add column summary text not null default '',
  add column call_n smallint, add column call_position smallint,
  add column step smallint not null default 1,
  add column repeats smallint not null default 0,
  add column first_prompt uuid,
  add column clock_from timestamptz,
  add column waits_until timestamptz,
  add column decision uuid unique,
  add column decided text check (decided in ('approved', 'declined', 'expired')),
  add column decided_why text, add column decided_by text, add column decided_at timestamptz,
  add column executing_since timestamptz,
  drop constraint pending_action_state_check,
  add constraint pending_action_state_check
    check (state in ('customer', 'operator', 'executed', 'refused', 'declined', 'cleared', 'replaced', 'superseded', 'unknown'));
comment on column pending_action.executing_since is 'set before an effect outside this database is called for: found so, nobody knows what came of it';
comment on column pending_action.step is 'the confirmation that its prompt asks for, first_prompt: the step''s first, where it was repeated, and clock_from its sending';
comment on column pending_action.waits_until is 'when an approval that nobody gave is a decline';
create index pending_action_approval on pending_action (waits_until) where state = 'operator';

-- One decision a draft and round; the digest is of the text that the operator saw.
create table draft_decision (
  outbound uuid, business int not null,
  round smallint not null,
  decision text not null check (decision in ('send', 'edit', 'discard')),
  text_digest bytea not null,
  decided_by text not null,
  decided_at timestamptz not null default now(),
  primary key (outbound, round),
  foreign key (outbound, business) references outbound (id, business));

alter table handoff
  add column claimed_by text, add column claimed_at timestamptz,
  add column clock_set boolean not null default false,
  add column remind_at timestamptz, add column reminded_at timestamptz,
  add column tell_at timestamptz, add column told_at timestamptz,
  add column released_by text, add column note text;
comment on column handoff.remind_at is 'when operators are reminded of it, and at tell_at the customer is told, unless somebody claimed it';
create index handoff_open on handoff (business, opened_at) where released_at is null;

alter table send_attempt add column claimed_at timestamptz not null default business_now();
comment on column send_attempt.claimed_at is 'in business time, for the age of a prompt, started_at is technical';

-- What a business's model calls of one of its local days cost, or reserved; touched only where a day cap is set.
create table budget (
  business int references business,
  day date not null,
  used_usd numeric(14, 8) not null default 0,
  primary key (business, day)) with (fillfactor = 50);
create index llm_call_conversation on llm_call (conversation, started_at);

-- The evidence of a turn, chained per conversation: the header's digest covers the one before and, salted, each part; names and texts are in parts alone.
create table envelope (
  turn uuid, business int not null,
  conversation uuid not null,
  n int not null,
  header text not null, digest bytea not null,
  parts text not null,
  stored_at timestamptz not null default now(),
  primary key (turn, n, business),
  unique (conversation, n),
  foreign key (turn, business) references turn (id, business));

-- What prompts said of a business, once each; envelopes name the digest.
create table prompt_page (
  business int references business,
  digest bytea not null,
  body text not null,
  stored_at timestamptz not null default now(),
  primary key (business, digest));

-- A reminder that was sent, and what its buttons stand for.
create table reminder (
  id uuid, business int not null,
  conversation uuid not null,
  tool text not null, arguments text not null, thanks text not null,
  created_at timestamptz not null default business_now(),
  primary key (id, business),
  foreign key (conversation, business) references conversation (id, business));

-- Who decided and changed what: append-only, each entry's digest covers the one before.
create table audit_log (
  business int references business,
  n bigint not null,
  at timestamptz not null default now(),
  actor text not null, action text not null, subject text not null,
  detail text not null,
  digest bytea not null,
  primary key (business, n));
create table audit_head (
  business int primary key references business,
  n bigint not null, digest bytea not null);

select secure_table(t::regclass, 'business') from unnest(array[
  'tool_level', 'draft_decision', 'budget', 'envelope', 'prompt_page', 'reminder', 'audit_log', 'audit_head']) t;

grant select on tool_level, draft_decision, budget, envelope, prompt_page, reminder, audit_log, audit_head to leeway_pipeline, leeway_tenant;
grant insert on draft_decision, budget, envelope, prompt_page, reminder, audit_log, audit_head to leeway_pipeline;
grant update (used_usd) on budget to leeway_pipeline;
grant update (n, digest) on audit_head to leeway_pipeline;
grant update (decision_owed, chain_length, chain_head) on conversation_state to leeway_pipeline;
grant update (result) on tool_call to leeway_pipeline;
grant update (executing_since, step, repeats, first_prompt, clock_from, waits_until, at_seq, decision, decided, decided_why, decided_by, decided_at) on pending_action to leeway_pipeline;
grant update (claimed_by, claimed_at, clock_set, remind_at, reminded_at, tell_at, told_at, released_by, note) on handoff to leeway_pipeline;

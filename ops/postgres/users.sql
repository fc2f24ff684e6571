-- Run once by `start`. psql quotes what it reads from the environment.
\set owner `printf %s "$OWNER"`
\set monitor `printf %s "$MONITOR"`
-- No superuser: it makes the two roles that the services step down to, owns what migrations make, and as who runs the commands it
-- sees all businesses.
create role leeway login createrole bypassrls password :'owner';
create database leeway owner leeway;
create role monitor login password :'monitor';
grant pg_monitor to monitor;
-- From 16 on a maker of roles may step down to them only if this says so.
select :SERVER_VERSION_NUM >= 160000 as newer \gset
\if :newer
alter role leeway set createrole_self_grant = 'set, inherit';
\endif

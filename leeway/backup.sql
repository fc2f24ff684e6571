-- name: server
-- The server's major version, and whether this user sees all rows whatever the policies.
select current_setting('server_version_num')::int / 10000 as major, rolsuper or rolbypassrls as sees_all from pg_roles where rolname = current_user

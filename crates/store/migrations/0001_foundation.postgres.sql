-- What PostgreSQL spells its own way: monthly partitions of the calls and their log, the rules that hold whoever
-- writes, and row-level security by tenant under a role that cannot bypass it.

ALTER TABLE calls ADD CONSTRAINT calls_step
    FOREIGN KEY (tenant_id, step_id) REFERENCES steps (tenant_id, id) ON DELETE SET NULL (step_id);

CREATE TABLE calls_default PARTITION OF calls DEFAULT;
CREATE TABLE events_default PARTITION OF events DEFAULT;
CREATE TABLE audit_leaves_default PARTITION OF audit_leaves DEFAULT;

-- The order of commits, for whoever follows along: rows of transactions that may still be open are not yet shown to
-- them, so that nothing appears behind a reader's back. (SQLite has one writer, and its row ids say the same.)
ALTER TABLE events ADD COLUMN position xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE audit_leaves ADD COLUMN position xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX events_position ON events (tenant_id, position);
CREATE INDEX audit_leaves_position ON audit_leaves (tenant_id, position);

-- ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE FUNCTION toolgate_refuse(rule text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rule: %', rule USING ERRCODE = 'TG001', CONSTRAINT = rule;
END $$;

CREATE FUNCTION tools_registry_egress_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.egress_class = 'write' THEN
        NEW.requires_approval := true;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER trg_tools_registry_egress_guard BEFORE INSERT OR UPDATE ON tools
    FOR EACH ROW EXECUTE FUNCTION tools_registry_egress_guard();

CREATE FUNCTION tool_versions_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.tenant_id, NEW.id, NEW.tool_id, NEW.version, NEW.definition, NEW.input_schema, NEW.definition_digest, NEW.behaviour_digest)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.tool_id, OLD.version, OLD.definition, OLD.input_schema, OLD.definition_digest, OLD.behaviour_digest)
        OR NEW.output_schema IS DISTINCT FROM OLD.output_schema OR NEW.source IS DISTINCT FROM OLD.source
        OR NEW.plugin IS DISTINCT FROM OLD.plugin THEN
        PERFORM toolgate_refuse('tool_versions_immutable');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tool_versions_immutable BEFORE UPDATE ON tool_versions
    FOR EACH ROW EXECUTE FUNCTION tool_versions_immutable();

-- A version goes with its tool, and not before it. When the tool's deletion cascades, the tool is gone already.
CREATE FUNCTION tool_versions_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tools WHERE id = OLD.tool_id) THEN
        PERFORM toolgate_refuse('tool_versions_stay');
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER tool_versions_stay BEFORE DELETE ON tool_versions
    FOR EACH ROW EXECUTE FUNCTION tool_versions_stay();

-- These may name a tool of their own tenant or one of the system's. The writer sees no others, so what it does not see
-- is refused. The rule's name is the trigger's argument.
CREATE FUNCTION own_or_shared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id
                   AND tenant_id IN (NEW.tenant_id, '00000000-0000-0000-0000-000000000000')) THEN
        PERFORM toolgate_refuse(TG_ARGV[0]);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tool_overrides_own_or_shared BEFORE INSERT OR UPDATE OF tenant_id, tool_id ON tool_overrides
    FOR EACH ROW EXECUTE FUNCTION own_or_shared('tool_overrides_own_or_shared');
CREATE TRIGGER tool_aliases_own_or_shared BEFORE INSERT OR UPDATE OF tenant_id, tool_id ON tool_aliases
    FOR EACH ROW EXECUTE FUNCTION own_or_shared('tool_aliases_own_or_shared');
CREATE TRIGGER assignments_own_or_shared BEFORE INSERT OR UPDATE OF tenant_id, tool_id ON assignments
    FOR EACH ROW EXECUTE FUNCTION own_or_shared('assignments_own_or_shared');

-- A call begins pending, running, or refused; what ends at once may be written when it has ended, if it has no effect.
CREATE FUNCTION calls_begin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (NEW.status IN ('pending', 'running', 'failed', 'cancelled')
            OR (NEW.status = 'completed' AND (NEW.effect_free OR NEW.mode = 'dry_run'))) THEN
        PERFORM toolgate_refuse('calls_begin');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_begin BEFORE INSERT ON calls FOR EACH ROW EXECUTE FUNCTION calls_begin();

CREATE FUNCTION calls_arrows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status <> OLD.status AND OLD.status || '>' || NEW.status NOT IN (
        'pending>approved', 'pending>rejected', 'pending>cancelled',
        'approved>running', 'approved>pending', 'approved>rejected', 'approved>cancelled',
        'running>completed', 'running>failed', 'running>cancelled', 'running>outcome_unknown',
        'outcome_unknown>completed', 'outcome_unknown>failed') THEN
        PERFORM toolgate_refuse('calls_arrows');
    END IF;
    IF (NEW.tenant_id, NEW.id, NEW.tool_id, NEW.mode, NEW.egress_class, NEW.effect_free)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.tool_id, OLD.mode, OLD.egress_class, OLD.effect_free) THEN
        PERFORM toolgate_refuse('calls_identity_stays');
    END IF;
    IF OLD.person_required AND NOT NEW.person_required THEN
        PERFORM toolgate_refuse('calls_person_required_stays');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_arrows BEFORE UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION calls_arrows();

-- Attached per table; the rule's name is the trigger's argument.
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM toolgate_refuse(TG_ARGV[0]);
    RETURN NULL;
END $$;
CREATE TRIGGER schema_versions_immutable BEFORE UPDATE ON schema_versions
    FOR EACH ROW EXECUTE FUNCTION append_only('schema_versions_immutable');
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION append_only('events_append_only');
CREATE TRIGGER audit_leaves_append_only BEFORE UPDATE OR DELETE ON audit_leaves
    FOR EACH ROW EXECUTE FUNCTION append_only('audit_leaves_append_only');
CREATE TRIGGER audit_sequence_append_only BEFORE UPDATE OR DELETE ON audit_sequence
    FOR EACH ROW EXECUTE FUNCTION append_only('audit_sequence_append_only');
CREATE TRIGGER audit_checkpoints_append_only BEFORE UPDATE OR DELETE ON audit_checkpoints
    FOR EACH ROW EXECUTE FUNCTION append_only('audit_checkpoints_append_only');
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION append_only('events_append_only');
CREATE TRIGGER audit_leaves_no_truncate BEFORE TRUNCATE ON audit_leaves
    FOR EACH STATEMENT EXECUTE FUNCTION append_only('audit_leaves_append_only');
CREATE TRIGGER audit_sequence_no_truncate BEFORE TRUNCATE ON audit_sequence
    FOR EACH STATEMENT EXECUTE FUNCTION append_only('audit_sequence_append_only');
CREATE TRIGGER audit_checkpoints_no_truncate BEFORE TRUNCATE ON audit_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION append_only('audit_checkpoints_append_only');

-- ── partitions ───────────────────────────────────────────────────────────────────────────────────────────────────

-- The smallest UUIDv7 of a moment: ids are time-ordered, so a month of ids is a month of rows.
CREATE FUNCTION uuid_floor(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;

-- Makes the partitions of the coming months. Months whose rows already lie in the default partition are left there.
CREATE FUNCTION make_partitions(from_month date, months int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    month date;
    part text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['calls', 'events', 'audit_leaves'] LOOP
        FOR i IN 0 .. months - 1 LOOP
            month := date_trunc('month', from_month)::date + make_interval(months => i);
            part := parent || to_char(month, '_YYYYMM');
            IF to_regclass(part) IS NULL THEN
                BEGIN
                    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', part, parent,
                        uuid_floor(month::timestamp AT TIME ZONE 'UTC'),
                        uuid_floor((month + interval '1 month')::timestamp AT TIME ZONE 'UTC'));
                EXCEPTION WHEN check_violation THEN
                    RAISE WARNING 'rows of % are in the default partition of %, so it gets none of its own', to_char(month, 'YYYY-MM'), parent;
                END;
            END IF;
        END LOOP;
    END LOOP;
END $$;
SELECT make_partitions(current_date, 3);

-- ── seed 000's functions ─────────────────────────────────────────────────────────────────────────────────────────

-- Whom a role of this database stands for. The role is the cluster's, so it stands for one principal.
CREATE TABLE sql_principals (
    tenant_id uuid NOT NULL,
    db_role TEXT NOT NULL,
    user_id uuid NOT NULL,
    mapped_by TEXT NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant_id, db_role),
    CONSTRAINT sql_principals_user FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX sql_principals_role ON sql_principals (db_role);

-- What somebody asked for by SQL; the server does it by the one path, in the order of asking.
CREATE TABLE sql_requests (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    db_role TEXT NOT NULL,
    user_id uuid NOT NULL,
    kind TEXT NOT NULL CONSTRAINT sql_requests_kind CHECK (kind IN ('invoke', 'complete', 'approve', 'reject')),
    args TEXT NOT NULL CONSTRAINT sql_requests_size CHECK (octet_length(args) <= 1048576),
    state TEXT NOT NULL DEFAULT 'waiting' CONSTRAINT sql_requests_state CHECK (state IN ('waiting', 'done', 'refused')),
    call_id uuid,
    error TEXT,
    created_at bigint NOT NULL,
    done_at bigint,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX sql_requests_waiting ON sql_requests (place) WHERE state = 'waiting';
CREATE INDEX sql_requests_role ON sql_requests (db_role) WHERE state = 'waiting';
CREATE INDEX sql_requests_call ON sql_requests (tenant_id, call_id) WHERE call_id IS NOT NULL;

-- ── row-level security ───────────────────────────────────────────────────────────────────────────────────────────

-- The transaction says whose rows it is about: `*`, or a list of tenants; and whose eyes see calls: `*`, or one user.
-- Policies call these inside a sub-select, so that they are computed once for a statement and not once for a row.
CREATE FUNCTION every_tenant() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_setting('toolgate.tenants', true) = '*'
$$;

CREATE FUNCTION scope_tenants() RETURNS uuid[] LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN coalesce(current_setting('toolgate.tenants', true), '') IN ('', '*') THEN '{}'::uuid[]
        ELSE string_to_array(current_setting('toolgate.tenants', true), ',')::uuid[] END
$$;

CREATE FUNCTION viewer() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('toolgate.viewer', true), '')
$$;

-- Whose calls a viewer sees besides their own: of agents they own, or manage in a workspace of theirs.
CREATE FUNCTION managed_agents() RETURNS uuid[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(a.id), '{}') FROM agents a
    WHERE 'user:' || a.owner_id = viewer()
       OR EXISTS (SELECT 1 FROM workspace_members m JOIN user_roles r ON r.tenant_id = m.tenant_id AND r.user_id = m.user_id
                  WHERE m.tenant_id = a.tenant_id AND m.workspace_id = a.workspace_id AND r.role IN ('author', 'admin')
                    AND 'user:' || m.user_id = viewer())
$$;

DO $$
DECLARE
    t text;
    in_scope constant text := '((SELECT every_tenant()) OR tenant_id = ANY ((SELECT scope_tenants())::uuid[]))';
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'toolgate_app') THEN
        BEGIN
            CREATE ROLE toolgate_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    -- Who is a member already needs no right to grant it.
    IF NOT pg_has_role(current_user, 'toolgate_app', 'MEMBER') THEN
        EXECUTE format('GRANT toolgate_app TO %I', current_user);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO toolgate_app', current_schema());
    -- The role is the whole cluster's, so whoever serves another database must not even connect to this one.
    EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), current_user);

    FOREACH t IN ARRAY ARRAY['workspaces', 'users', 'user_roles', 'user_permissions', 'workspace_members', 'browser_sessions',
        'sign_in_links', 'invitations', 'profiles', 'agents', 'api_keys', 'oauth_codes', 'oauth_refreshes', 'schema_versions', 'plugins', 'upstreams', 'upstream_offers', 'skills', 'skill_versions', 'providers', 'tool_versions', 'tools', 'tool_classifications', 'tool_tombstones', 'tool_overrides',
        'tool_aliases', 'tool_groups', 'assignments', 'runs', 'steps', 'agent_runs', 'agent_turns', 'approvals', 'approval_votes', 'grants', 'tokens', 'token_proofs', 'policies', 'guardrails',
        'workflows', 'workflow_revisions', 'workflow_runs', 'workflow_nodes',
        'egress_openings', 'label_acceptances', 'label_contexts', 'input_requests', 'webhooks', 'deliveries',
        'request_ids', 'sql_principals', 'sql_requests', 'run_calls', 'work', 'budgets', 'kill_switches', 'notes', 'file_changes', 'event_parts', 'audit_progress', 'secrets', 'usage', 'blobs', 'calls', 'events', 'audit_leaves', 'audit_sequence', 'audit_nodes',
        'audit_checkpoints', 'audit_payloads'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO toolgate_app', t);
        IF t IN ('tools', 'tool_versions', 'schema_versions', 'tool_aliases', 'tool_groups') THEN
            -- Rows of the system tenant are global: everyone reads them, only the operator's scope writes them.
            EXECUTE format('CREATE POLICY tenant_reads ON %I FOR SELECT USING (%s OR tenant_id = %L)', t, in_scope,
                '00000000-0000-0000-0000-000000000000');
            EXECUTE format('CREATE POLICY tenant_inserts ON %I FOR INSERT WITH CHECK (%s)', t, in_scope);
            EXECUTE format('CREATE POLICY tenant_updates ON %I FOR UPDATE USING (%s) WITH CHECK (%s)', t, in_scope, in_scope);
            EXECUTE format('CREATE POLICY tenant_deletes ON %I FOR DELETE USING (%s)', t, in_scope);
        ELSIF t = 'calls' THEN
            EXECUTE format('CREATE POLICY tenant_and_viewer ON calls USING (%s AND ((SELECT viewer()) = %L
                OR principal = (SELECT viewer()) OR agent_id = ANY ((SELECT managed_agents())::uuid[]))) WITH CHECK (%s)', in_scope, '*', in_scope);
        ELSE
            EXECUTE format('CREATE POLICY tenant ON %I USING (%s) WITH CHECK (%s)', t, in_scope, in_scope);
        END IF;
    END LOOP;

    ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
    ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
    EXECUTE format('CREATE POLICY tenant ON tenants USING (%s) WITH CHECK (%s)', replace(in_scope, 'tenant_id', 'id'), replace(in_scope, 'tenant_id', 'id'));
    GRANT SELECT, INSERT, UPDATE ON tenants TO toolgate_app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, identities, sign_in_delays, server_keys, leases, counters TO toolgate_app;
    GRANT SELECT ON migrations TO toolgate_app;

    -- The log is written once. Triggers say the same to whoever else may write.
    REVOKE UPDATE, DELETE ON events, audit_leaves, audit_sequence, audit_checkpoints, schema_versions FROM toolgate_app;
END $$;

-- ── seed 000's view and functions ────────────────────────────────────────────────────────────────────────────────

-- Whoever may use them is a member of `toolgate_sql`, and stands for the principal that its login role is mapped to. The
-- functions only ask: the server submits and decides. These run as the owner of the tables, see every tenant for as long
-- as they last, and answer for the login role alone, which a session cannot change.

CREATE FUNCTION sql_tenant() RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER SET toolgate.tenants = '*' AS $$
    SELECT tenant_id FROM sql_principals WHERE db_role = session_user
$$;

CREATE FUNCTION sql_principal() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET toolgate.tenants = '*' AS $$
    SELECT 'user:' || p.user_id FROM sql_principals p
    JOIN users u ON u.tenant_id = p.tenant_id AND u.id = p.user_id AND u.disabled_at IS NULL
    WHERE p.db_role = session_user
$$;

CREATE FUNCTION sql_sees_all() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET toolgate.tenants = '*' AS $$
    SELECT EXISTS (SELECT 1 FROM sql_principals p
        JOIN user_roles r ON r.tenant_id = p.tenant_id AND r.user_id = p.user_id AND r.role IN ('approver', 'admin')
        WHERE p.db_role = session_user)
$$;

CREATE FUNCTION sql_agents() RETURNS uuid[] LANGUAGE sql STABLE SECURITY DEFINER SET toolgate.tenants = '*' AS $$
    SELECT coalesce(array_agg(a.id), '{}') FROM sql_principals p JOIN agents a ON a.tenant_id = p.tenant_id
    WHERE p.db_role = session_user AND (a.owner_id = p.user_id
        OR EXISTS (SELECT 1 FROM workspace_members m
                   JOIN user_roles r ON r.tenant_id = m.tenant_id AND r.user_id = m.user_id AND r.role IN ('author', 'admin')
                   WHERE m.tenant_id = a.tenant_id AND m.workspace_id = a.workspace_id AND m.user_id = p.user_id))
$$;

-- Requests that one role may have waiting.
CREATE FUNCTION sql_request(wanted text, arguments jsonb) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET toolgate.tenants = '*' AS $$
DECLARE
    mapped sql_principals%ROWTYPE;
    millis constant bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    -- A UUIDv7: the time, then chance.
    request constant uuid :=
        (lpad(to_hex(millis), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14, 19))::uuid;
BEGIN
    SELECT * INTO mapped FROM sql_principals WHERE db_role = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the database role % stands for nobody', session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'map it with `toolgate db map-role ROLE USER`';
    END IF;
    IF (SELECT count(*) FROM (SELECT 1 FROM sql_requests WHERE db_role = session_user AND state = 'waiting' LIMIT 1000) w) >= 1000 THEN
        RAISE EXCEPTION 'the database role % has 1000 requests waiting', session_user
            USING ERRCODE = 'configuration_limit_exceeded', HINT = 'see that a Toolgate server is running, and try again';
    END IF;
    INSERT INTO sql_requests (tenant_id, id, db_role, user_id, kind, args, created_at)
    VALUES (mapped.tenant_id, request, session_user, mapped.user_id, wanted, arguments::text, millis);
    RETURN request;
END $$;

-- What was kept as text, as far as PostgreSQL can hold it as JSON: a text with U+0000 it cannot.
CREATE FUNCTION sql_json(kept text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN kept::jsonb;
EXCEPTION WHEN data_exception THEN
    RETURN to_jsonb(kept);
END $$;

CREATE SCHEMA IF NOT EXISTS agents;

CREATE FUNCTION agents.fn_invoke_tool(p_team_run_id uuid, p_tool_id uuid, p_ai_lenser_id uuid, p_input jsonb,
    p_agent_run_step_id uuid DEFAULT NULL) RETURNS uuid LANGUAGE sql SECURITY DEFINER AS $$
    SELECT sql_request('invoke', jsonb_build_object('team_run_id', p_team_run_id, 'tool_id', p_tool_id,
        'ai_lenser_id', p_ai_lenser_id, 'input', p_input, 'agent_run_step_id', p_agent_run_step_id))
$$;

CREATE FUNCTION agents.fn_complete_tool_invocation(p_invocation_id uuid, p_status text, p_output jsonb DEFAULT NULL,
    p_error text DEFAULT NULL, p_cost numeric DEFAULT NULL) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
    SELECT sql_request('complete', jsonb_build_object('invocation_id', p_invocation_id, 'status', p_status,
        'output', p_output, 'error', p_error, 'cost', p_cost::text))
$$;

CREATE FUNCTION agents.fn_approve_tool_invocation(p_invocation_id uuid) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
    SELECT sql_request('approve', jsonb_build_object('invocation_id', p_invocation_id))
$$;

CREATE FUNCTION agents.fn_reject_tool_invocation(p_invocation_id uuid, p_reason text) RETURNS void
    LANGUAGE sql SECURITY DEFINER AS $$
    SELECT sql_request('reject', jsonb_build_object('invocation_id', p_invocation_id, 'reason', p_reason))
$$;

DO $$
DECLARE
    name text;
    own_calls constant text := 'tenant_id = (SELECT sql_tenant()) AND ((SELECT sql_sees_all())
        OR principal = (SELECT sql_principal()) OR agent_id = ANY ((SELECT sql_agents())::uuid[]))';
    own constant text := 'tenant_id = (SELECT sql_tenant())';
    own_or_global constant text := 'tenant_id IN ((SELECT sql_tenant()), ''00000000-0000-0000-0000-000000000000'')';
    bound record;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'toolgate_sql') THEN
        BEGIN
            CREATE ROLE toolgate_sql NOLOGIN NOSUPERUSER NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    -- A caller's temporary tables come last, so that they cannot stand in for ours.
    FOR name IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.prosecdef
            AND p.pronamespace IN (current_schema()::regnamespace, 'agents'::regnamespace) LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', name, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA agents, %I TO toolgate_sql', current_schema());
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA agents TO toolgate_sql;
    GRANT EXECUTE ON FUNCTION sql_tenant(), sql_principal(), sql_sees_all(), sql_agents(), sql_json(text) TO toolgate_sql;

    -- What the view needs, and of that only what is the principal's: a session that sets our variables gains nothing.
    FOR bound IN SELECT * FROM (VALUES ('calls', own_calls), ('sql_requests', 'db_role = session_user'), ('steps', own),
            ('tools', own_or_global), ('tool_versions', own_or_global)) AS t (name, condition) LOOP
        EXECUTE format('CREATE POLICY sql_reads ON %I FOR SELECT TO toolgate_sql USING (true)', bound.name);
        EXECUTE format('CREATE POLICY sql_bounds ON %I AS RESTRICTIVE TO toolgate_sql USING (%s)', bound.name, bound.condition);
    END LOOP;
    GRANT SELECT (tenant_id, id, run_id, root_run_id, step_id, tool_id, tool_version, agent_id, principal, input, output, status,
        approval_status, approval_required, approval_decided_by, approval_reason, error, cost_estimate, cost, reported_cost,
        egress_class, started_at, completed_at, created_at) ON calls TO toolgate_sql;
    GRANT SELECT (tenant_id, id, db_role, kind, args, state, call_id, error, created_at, done_at) ON sql_requests TO toolgate_sql;
    GRANT SELECT (tenant_id, id, title) ON steps TO toolgate_sql;
    GRANT SELECT (tenant_id, id, name, egress_class) ON tools TO toolgate_sql;
    GRANT SELECT (tenant_id, tool_id, version, definition) ON tool_versions TO toolgate_sql;

    -- Its reader's rights are checked, not its owner's: PostgreSQL 15 has that, and without it there is no view.
    IF current_setting('server_version_num')::int < 150000 THEN
        RETURN;
    END IF;
    EXECUTE $view$
        CREATE VIEW agents.tool_invocations_v WITH (security_invoker = true) AS
        SELECT coalesce(r.id, c.id) AS id, coalesce(c.root_run_id, c.run_id, c.id) AS team_run_id,
            c.step_id AS agent_run_step_id, c.tool_id, c.agent_id AS ai_lenser_id, sql_json(c.input) AS input,
            sql_json(c.output) AS output,
            CASE c.status WHEN 'cancelled' THEN 'failed' WHEN 'outcome_unknown' THEN 'running' ELSE c.status END AS status,
            c.approval_status, c.approval_required,
            CASE WHEN c.approval_decided_by ~ '^user:[0-9a-f-]+$' THEN substr(c.approval_decided_by, 6)::uuid END
                AS approval_decided_by,
            c.approval_reason,
            CASE WHEN c.status = 'outcome_unknown'
                    THEN 'outcome unknown: ' || coalesce(sql_json(c.error) ->> 'message', 'nobody knows how it ended')
                WHEN c.error IS NOT NULL
                    THEN coalesce((sql_json(c.error) ->> 'code') || ': ' || (sql_json(c.error) ->> 'message'), c.error)
                WHEN c.status IN ('failed', 'cancelled', 'rejected') THEN 'the call is ' || c.status END AS error,
            coalesce(c.reported_cost, c.cost, c.cost_estimate)::numeric AS cost_estimate,
            to_timestamp(c.started_at / 1000.0) AS started_at, to_timestamp(c.completed_at / 1000.0) AS completed_at,
            to_timestamp(c.created_at / 1000.0) AS created_at,
            t.name AS tool_key, coalesce(sql_json(v.definition) ->> 'title', t.name) AS tool_name, c.egress_class,
            s.title AS step_title
        FROM calls c
        JOIN tools t ON t.id = c.tool_id
        LEFT JOIN tool_versions v ON v.tenant_id = t.tenant_id AND v.tool_id = t.id AND v.version = c.tool_version
        LEFT JOIN steps s ON s.tenant_id = c.tenant_id AND s.id = c.step_id
        LEFT JOIN sql_requests r ON r.tenant_id = c.tenant_id AND r.call_id = c.id AND r.kind = 'invoke'
        UNION ALL
        -- What was asked for and is no call yet, or never became one.
        SELECT r.id, (a.args ->> 'team_run_id')::uuid, (a.args ->> 'agent_run_step_id')::uuid, (a.args ->> 'tool_id')::uuid,
            (a.args ->> 'ai_lenser_id')::uuid, a.args -> 'input', NULL,
            CASE r.state WHEN 'waiting' THEN 'pending' ELSE 'failed' END,
            CASE r.state WHEN 'waiting' THEN 'pending' ELSE 'not_required' END, r.state = 'waiting', NULL, NULL, r.error, NULL,
            NULL, to_timestamp(r.done_at / 1000.0), to_timestamp(r.created_at / 1000.0), t.name, t.name, t.egress_class, NULL
        FROM sql_requests r
        CROSS JOIN LATERAL (SELECT sql_json(r.args) AS args) a
        LEFT JOIN tools t ON t.id = (a.args ->> 'tool_id')::uuid
        WHERE r.kind = 'invoke' AND r.call_id IS NULL
    $view$;
    -- Functions without an answer cannot say that they were refused.
    EXECUTE $view$
        CREATE VIEW agents.tool_requests_v WITH (security_invoker = true) AS
        SELECT id, kind, state, call_id AS invocation_id, error, to_timestamp(created_at / 1000.0) AS created_at,
            to_timestamp(done_at / 1000.0) AS done_at
        FROM sql_requests
    $view$;
    GRANT SELECT ON agents.tool_invocations_v, agents.tool_requests_v TO toolgate_sql;
END $$;

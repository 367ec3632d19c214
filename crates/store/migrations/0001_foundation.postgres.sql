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
        OR NEW.output_schema IS DISTINCT FROM OLD.output_schema OR NEW.source IS DISTINCT FROM OLD.source THEN
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
        'sign_in_links', 'profiles', 'agents', 'api_keys', 'schema_versions', 'tool_versions', 'tools', 'tool_classifications', 'tool_tombstones', 'tool_overrides',
        'tool_aliases', 'tool_groups', 'assignments', 'runs', 'steps', 'approvals', 'approval_votes', 'grants', 'tokens', 'token_proofs', 'policies', 'guardrails',
        'egress_openings', 'label_acceptances', 'label_contexts', 'input_requests', 'webhooks', 'deliveries',
        'request_ids', 'run_calls', 'work', 'budgets', 'kill_switches', 'notes', 'event_parts', 'audit_progress', 'secrets', 'usage', 'blobs', 'calls', 'events', 'audit_leaves', 'audit_sequence', 'audit_nodes',
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
    GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, server_keys, leases, counters TO toolgate_app;
    GRANT SELECT ON migrations TO toolgate_app;

    -- The log is written once. Triggers say the same to whoever else may write.
    REVOKE UPDATE, DELETE ON events, audit_leaves, audit_sequence, audit_checkpoints, schema_versions FROM toolgate_app;
END $$;

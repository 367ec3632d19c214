-- What SQLite spells its own way: the calls with their log, and the rules that hold whoever writes.

CREATE TABLE calls (
    tenant_id BLOB NOT NULL,
    id BLOB NOT NULL,
    call_id TEXT NOT NULL,
    -- Null for a lone call: its run has the call's own id and no row.
    run_id BLOB,
    root_run_id BLOB,
    step_id BLOB,
    seq INTEGER NOT NULL DEFAULT 0,
    tool_id BLOB NOT NULL REFERENCES tools (id),
    tool_version TEXT NOT NULL,
    agent_id BLOB,
    workspace_id BLOB,
    principal TEXT NOT NULL,
    source TEXT NOT NULL CONSTRAINT calls_source
        CHECK (source IN ('web', 'agent', 'api', 'mcp', 'cli', 'workflow', 'embed', 'schedule')),
    mode TEXT NOT NULL DEFAULT 'execute' CONSTRAINT calls_mode CHECK (mode IN ('execute', 'record', 'dry_run')),
    egress_class TEXT NOT NULL CONSTRAINT calls_egress_class CHECK (egress_class IN ('none', 'read_only', 'write')),
    effect_free INTEGER NOT NULL,
    status TEXT NOT NULL CONSTRAINT calls_status CHECK (status IN
        ('pending', 'approved', 'rejected', 'running', 'completed', 'failed', 'cancelled', 'outcome_unknown')),
    approval_status TEXT NOT NULL DEFAULT 'not_required' CONSTRAINT calls_approval_status
        CHECK (approval_status IN ('pending', 'approved', 'rejected', 'not_required')),
    approval_required INTEGER NOT NULL DEFAULT FALSE,
    -- A `write`, or asked by a label: set at submit, never cleared; only a person's decision lets it run.
    person_required INTEGER NOT NULL DEFAULT FALSE,
    approval_id BLOB,
    approval_decided_by TEXT,
    approval_reason TEXT,
    cost_estimate TEXT,
    cost TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    cached INTEGER NOT NULL DEFAULT FALSE,
    truncated INTEGER NOT NULL DEFAULT FALSE,
    definition_digest BLOB NOT NULL,
    policy_revision INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    labels TEXT NOT NULL DEFAULT '[]',
    metadata TEXT,
    usage TEXT,
    decision TEXT NOT NULL,
    error TEXT,
    input TEXT,
    proposed_input TEXT,
    output TEXT,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT calls_run FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT calls_write_needs_person CHECK (egress_class <> 'write' OR person_required OR mode = 'dry_run' OR status = 'failed'),
    CONSTRAINT calls_person_decides CHECK (
        NOT person_required
        OR status IN ('pending', 'rejected', 'failed', 'cancelled')
        OR mode = 'dry_run'
        OR (approval_status = 'approved' AND approval_decided_by IS NOT NULL AND approval_decided_by <> 'system:timeout'))
) STRICT;
CREATE INDEX calls_tool ON calls (tenant_id, tool_id, id);
CREATE INDEX calls_principal ON calls (tenant_id, principal, id);
CREATE INDEX calls_root_run ON calls (tenant_id, root_run_id, id) WHERE root_run_id IS NOT NULL;
CREATE INDEX calls_run ON calls (tenant_id, run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX calls_agent ON calls (tenant_id, agent_id, id) WHERE agent_id IS NOT NULL;
CREATE INDEX calls_agent_status ON calls (tenant_id, agent_id, status, id) WHERE agent_id IS NOT NULL AND status <> 'completed';
CREATE INDEX calls_pending ON calls (tenant_id, id) WHERE approval_status = 'pending';
CREATE INDEX calls_unfinished_or_failed ON calls (tenant_id, status, id) WHERE status <> 'completed';

-- Several events of one call may share a row: `events` holds seq .. last_seq.
CREATE TABLE events (
    tenant_id BLOB NOT NULL,
    run_id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    call_id BLOB,
    events TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_leaves (
    tenant_id BLOB NOT NULL REFERENCES tenants (id),
    id BLOB NOT NULL,
    entry TEXT NOT NULL CONSTRAINT audit_leaves_size CHECK (length(CAST(entry AS BLOB)) < 65536),
    digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

-- ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TRIGGER trg_tools_registry_egress_guard_insert AFTER INSERT ON tools
WHEN NEW.egress_class = 'write' AND NOT NEW.requires_approval
BEGIN
    UPDATE tools SET requires_approval = TRUE WHERE id = NEW.id;
END;

CREATE TRIGGER trg_tools_registry_egress_guard_update AFTER UPDATE ON tools
WHEN NEW.egress_class = 'write' AND NOT NEW.requires_approval
BEGIN
    UPDATE tools SET requires_approval = TRUE WHERE id = NEW.id;
END;

CREATE TRIGGER tool_versions_immutable BEFORE UPDATE ON tool_versions
WHEN NEW.version IS NOT OLD.version OR NEW.definition IS NOT OLD.definition OR NEW.tool_id IS NOT OLD.tool_id
    OR NEW.input_schema IS NOT OLD.input_schema OR NEW.output_schema IS NOT OLD.output_schema
    OR NEW.source IS NOT OLD.source OR NEW.definition_digest IS NOT OLD.definition_digest
    OR NEW.behaviour_digest IS NOT OLD.behaviour_digest OR NEW.tenant_id IS NOT OLD.tenant_id
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_versions_immutable');
END;

CREATE TRIGGER schema_versions_immutable BEFORE UPDATE ON schema_versions
BEGIN
    SELECT RAISE(ABORT, 'rule: schema_versions_immutable');
END;

-- A call begins pending, running, or refused; what ends at once may be written when it has ended, if it has no effect.
CREATE TRIGGER calls_begin BEFORE INSERT ON calls
WHEN NOT (NEW.status IN ('pending', 'running', 'failed', 'cancelled') OR (NEW.status = 'completed' AND (NEW.effect_free OR NEW.mode = 'dry_run')))
BEGIN
    SELECT RAISE(ABORT, 'rule: calls_begin');
END;

CREATE TRIGGER calls_arrows BEFORE UPDATE OF status ON calls
WHEN NEW.status IS NOT OLD.status AND OLD.status || '>' || NEW.status NOT IN (
    'pending>approved', 'pending>rejected', 'pending>cancelled',
    'approved>running', 'approved>pending', 'approved>rejected', 'approved>cancelled',
    'running>completed', 'running>failed', 'running>cancelled', 'running>outcome_unknown',
    'outcome_unknown>completed', 'outcome_unknown>failed')
BEGIN
    SELECT RAISE(ABORT, 'rule: calls_arrows');
END;

CREATE TRIGGER calls_person_required_stays BEFORE UPDATE OF person_required ON calls
WHEN OLD.person_required AND NOT NEW.person_required
BEGIN
    SELECT RAISE(ABORT, 'rule: calls_person_required_stays');
END;

CREATE TRIGGER steps_leave_calls AFTER DELETE ON steps
BEGIN
    UPDATE calls SET step_id = NULL WHERE tenant_id = OLD.tenant_id AND run_id = OLD.run_id AND step_id = OLD.id;
END;

CREATE TRIGGER events_append_only_update BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'rule: events_append_only');
END;
CREATE TRIGGER events_append_only_delete BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'rule: events_append_only');
END;
CREATE TRIGGER audit_leaves_append_only_update BEFORE UPDATE ON audit_leaves
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_leaves_append_only');
END;
CREATE TRIGGER audit_leaves_append_only_delete BEFORE DELETE ON audit_leaves
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_leaves_append_only');
END;
CREATE TRIGGER audit_sequence_append_only_update BEFORE UPDATE ON audit_sequence
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_sequence_append_only');
END;
CREATE TRIGGER audit_sequence_append_only_delete BEFORE DELETE ON audit_sequence
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_sequence_append_only');
END;

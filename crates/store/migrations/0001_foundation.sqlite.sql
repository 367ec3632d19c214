-- What SQLite spells its own way: the rules that hold whoever writes.

-- The order of commits within a tenant: an index ends with the row id, and one writer gives larger ones later.
CREATE INDEX audit_leaves_position ON audit_leaves (tenant_id);

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
    OR NEW.behaviour_digest IS NOT OLD.behaviour_digest OR NEW.tenant_id IS NOT OLD.tenant_id OR NEW.id IS NOT OLD.id
    OR NEW.plugin IS NOT OLD.plugin
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_versions_immutable');
END;

-- A version goes with its tool, and not before it. When the tool's deletion cascades, the tool is gone already.
CREATE TRIGGER tool_versions_stay BEFORE DELETE ON tool_versions
WHEN EXISTS (SELECT 1 FROM tools WHERE id = OLD.tool_id)
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_versions_stay');
END;

-- The same as the foreign keys say, also to a connection that has them off.
CREATE TRIGGER tools_used_stay BEFORE DELETE ON tools
WHEN EXISTS (SELECT 1 FROM calls WHERE tenant_id IN (SELECT id FROM tenants) AND tool_id = OLD.id)
BEGIN
    SELECT RAISE(ABORT, 'rule: foreign_key');
END;

-- These may name a tool of their own tenant or one of the system's.
CREATE TRIGGER tool_overrides_own_or_shared_insert BEFORE INSERT ON tool_overrides
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id AND tenant_id IN (NEW.tenant_id, zeroblob(16)))
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_overrides_own_or_shared');
END;
CREATE TRIGGER tool_overrides_own_or_shared_update BEFORE UPDATE OF tenant_id, tool_id ON tool_overrides
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id AND tenant_id IN (NEW.tenant_id, zeroblob(16)))
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_overrides_own_or_shared');
END;
CREATE TRIGGER tool_aliases_own_or_shared_insert BEFORE INSERT ON tool_aliases
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id AND tenant_id IN (NEW.tenant_id, zeroblob(16)))
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_aliases_own_or_shared');
END;
CREATE TRIGGER tool_aliases_own_or_shared_update BEFORE UPDATE OF tenant_id, tool_id ON tool_aliases
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id AND tenant_id IN (NEW.tenant_id, zeroblob(16)))
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_aliases_own_or_shared');
END;
CREATE TRIGGER assignments_own_or_shared_insert BEFORE INSERT ON assignments
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id AND tenant_id IN (NEW.tenant_id, zeroblob(16)))
BEGIN
    SELECT RAISE(ABORT, 'rule: assignments_own_or_shared');
END;
CREATE TRIGGER assignments_own_or_shared_update BEFORE UPDATE OF tenant_id, tool_id ON assignments
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE id = NEW.tool_id AND tenant_id IN (NEW.tenant_id, zeroblob(16)))
BEGIN
    SELECT RAISE(ABORT, 'rule: assignments_own_or_shared');
END;

CREATE TRIGGER schema_versions_immutable BEFORE UPDATE ON schema_versions
BEGIN
    SELECT RAISE(ABORT, 'rule: schema_versions_immutable');
END;

-- A call begins pending, running, or refused; what ends at once may be written when it has ended, if it has no effect.
-- Its key is taken once (see INSERT OR REPLACE below): one trigger for both. What is inserted with every call refuses by
-- FAIL: ABORT would have every touched page copied before, and there is nothing to undo yet.
CREATE TRIGGER calls_begin BEFORE INSERT ON calls
BEGIN
    SELECT RAISE(FAIL, 'rule: calls_begin')
    WHERE NOT ((NEW.status = 'completed' AND (NEW.effect_free OR NEW.mode = 'dry_run'))
        OR NEW.status = 'running' OR NEW.status = 'failed' OR NEW.status = 'pending' OR NEW.status = 'cancelled');
    SELECT RAISE(FAIL, 'rule: calls_pkey') FROM calls WHERE tenant_id = NEW.tenant_id AND id = NEW.id;
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

CREATE TRIGGER calls_identity_stays BEFORE UPDATE ON calls
WHEN NEW.tenant_id IS NOT OLD.tenant_id OR NEW.id IS NOT OLD.id OR NEW.tool_id IS NOT OLD.tool_id OR NEW.mode IS NOT OLD.mode
    OR NEW.egress_class IS NOT OLD.egress_class OR NEW.effect_free IS NOT OLD.effect_free
BEGIN
    SELECT RAISE(ABORT, 'rule: calls_identity_stays');
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
CREATE TRIGGER audit_checkpoints_append_only_update BEFORE UPDATE ON audit_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_checkpoints_append_only');
END;
CREATE TRIGGER audit_checkpoints_append_only_delete BEFORE DELETE ON audit_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_checkpoints_append_only');
END;

-- ── INSERT OR REPLACE ────────────────────────────────────────────────────────────────────────────────────────────

-- It deletes what is in its way without asking the triggers above, so a key that is taken is refused before that, by
-- the name that the key itself has.
CREATE TRIGGER events_pkey_once BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE tenant_id = NEW.tenant_id AND run_id = NEW.run_id AND seq = NEW.seq)
BEGIN
    SELECT RAISE(FAIL, 'rule: events_pkey');
END;
CREATE TRIGGER audit_leaves_pkey_once BEFORE INSERT ON audit_leaves
WHEN EXISTS (SELECT 1 FROM audit_leaves WHERE tenant_id = NEW.tenant_id AND id = NEW.id)
BEGIN
    SELECT RAISE(FAIL, 'rule: audit_leaves_pkey');
END;
CREATE TRIGGER audit_sequence_once BEFORE INSERT ON audit_sequence
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_sequence_pkey') FROM audit_sequence
    WHERE tenant_id = NEW.tenant_id AND leaf_index = NEW.leaf_index;
    SELECT RAISE(ABORT, 'rule: audit_sequence_leaf') FROM audit_sequence
    WHERE tenant_id = NEW.tenant_id AND leaf_id = NEW.leaf_id;
END;
CREATE TRIGGER audit_checkpoints_pkey_once BEFORE INSERT ON audit_checkpoints
WHEN EXISTS (SELECT 1 FROM audit_checkpoints WHERE tenant_id = NEW.tenant_id AND size = NEW.size)
BEGIN
    SELECT RAISE(ABORT, 'rule: audit_checkpoints_pkey');
END;
CREATE TRIGGER tool_versions_pkey_once BEFORE INSERT ON tool_versions
WHEN EXISTS (SELECT 1 FROM tool_versions WHERE tenant_id = NEW.tenant_id AND id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_versions_pkey');
END;
CREATE TRIGGER tool_versions_version_once BEFORE INSERT ON tool_versions
WHEN EXISTS (SELECT 1 FROM tool_versions WHERE tenant_id = NEW.tenant_id AND tool_id = NEW.tool_id AND version = NEW.version)
BEGIN
    SELECT RAISE(ABORT, 'rule: tool_versions_version');
END;
-- A schema is stored many times and kept once.
CREATE TRIGGER schema_versions_once BEFORE INSERT ON schema_versions
WHEN EXISTS (SELECT 1 FROM schema_versions WHERE tenant_id = NEW.tenant_id AND digest = NEW.digest)
BEGIN
    SELECT RAISE(IGNORE);
END;

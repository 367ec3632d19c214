-- What SQLite spells its own way: the rules that hold whoever writes.

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

-- The second half of `0001_foundation.sql`: calls, what decides on them, their log, and the server itself.

-- ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE runs (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    root_run_id {uuid} NOT NULL,
    parent_run_id {uuid},
    workspace_id {uuid},
    agent_id {uuid},
    principal TEXT NOT NULL,
    title TEXT,
    -- What drives it: an agent's model, a workflow's graph, or whoever makes the calls.
    kind TEXT NOT NULL DEFAULT 'calls' CONSTRAINT runs_kind CHECK (kind IN ('agent', 'workflow', 'calls')),
    state TEXT NOT NULL CONSTRAINT runs_state
        CHECK (state IN ('queued', 'running', 'waiting_human', 'completed', 'failed', 'cancelled')),
    limits TEXT NOT NULL DEFAULT '{}',
    -- Bits, because they only join: 1 untrusted, 2 private, 4 sensitive.
    labels {int} NOT NULL DEFAULT 0,
    -- Where they came from, for whoever must decide.
    origins TEXT NOT NULL DEFAULT '{}',
    -- Why it ended, in words.
    reason TEXT,
    -- The place of the next call, how many were counted against `max_tool_calls`, and the last event's number: they
    -- move in the transaction that uses them, so places are given once and the log has no gap.
    next_seq {int} NOT NULL DEFAULT 0,
    calls_counted {int} NOT NULL DEFAULT 0,
    event_seq {int} NOT NULL DEFAULT 0,
    -- Since when a kill switch holds it up, or its agent is frozen. It is no state: the run is where it was.
    frozen_at {int},
    -- Since when it waits for people, and how long it did before: that time is not its own.
    waiting_since {int},
    waited_ms {int} NOT NULL DEFAULT 0,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE INDEX runs_principal ON runs (tenant_id, principal, id);
CREATE INDEX runs_root ON runs (tenant_id, root_run_id, id);
CREATE INDEX runs_parent ON runs (tenant_id, parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_frozen ON runs (tenant_id, agent_id) WHERE frozen_at IS NOT NULL;
CREATE INDEX runs_open ON runs (tenant_id, state, id) WHERE state IN ('queued', 'running', 'waiting_human');

CREATE TABLE steps (
    tenant_id {uuid} NOT NULL,
    id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    agent_id {uuid},
    title TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE INDEX steps_run ON steps (tenant_id, run_id, id);

-- Runs of agents that are hosted here. What happened is in the turns and the calls; from both a run is taken up again
-- wherever it was left.
CREATE TABLE agent_runs (
    tenant_id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    -- What the agent was given when it began: prompt, instructions, tools, limits.
    plan TEXT NOT NULL,
    -- By which credential it was begun: its rights are asked for anew.
    asker TEXT NOT NULL,
    -- The replica that is at it.
    holder TEXT,
    -- The call without whose end it cannot go on.
    waits_for {uuid},
    -- The call that it answers when it ends.
    for_call {uuid},
    -- The call that began it, whether or not it waits for the answer.
    begun_by {uuid},
    -- For whom it is remembered what the answer of that call has seen: a label context.
    reader TEXT,
    -- The beginning of the prompt, in one line, and the labels of whoever asked: for lists of runs.
    asked TEXT,
    asked_labels {int} NOT NULL DEFAULT 0,
    outputs TEXT,
    is_open {int} NOT NULL DEFAULT 1,
    -- Questions that went out and have no answer, and what they count for: all that was held for them.
    unanswered {int} NOT NULL DEFAULT 0,
    unanswered_input {int} NOT NULL DEFAULT 0,
    unanswered_output {int} NOT NULL DEFAULT 0,
    unanswered_micros {int} NOT NULL DEFAULT 0,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE INDEX agent_runs_open ON agent_runs (run_id) WHERE is_open = 1;
CREATE UNIQUE INDEX agent_runs_for_call ON agent_runs (tenant_id, for_call) WHERE for_call IS NOT NULL;

CREATE TABLE agent_turns (
    tenant_id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    turn {int} NOT NULL,
    -- What is held of budgets as long as there is no answer.
    holds TEXT NOT NULL,
    -- What it may take at most: tokens, and their price.
    may_take TEXT NOT NULL,
    answer TEXT,
    -- Calls of this turn that the model was told of otherwise than their records say: those that have none, and those
    -- that it did not wait for.
    asides TEXT NOT NULL DEFAULT '[]',
    cost TEXT,
    asked_at {int} NOT NULL,
    answered_at {int},
    PRIMARY KEY (tenant_id, run_id, turn),
    FOREIGN KEY (tenant_id, run_id) REFERENCES agent_runs (tenant_id, run_id) ON DELETE CASCADE
) {strict};

-- What every call passes is written so that SQLite judges it without building anything: closed lists of more than two
-- words as `OR`, since each `IN` fills a table of its own for each row, and foreign keys that are judged at the commit
-- (late), since one that may refuse beside a trigger has every touched page copied first.
CREATE TABLE calls (
    tenant_id {uuid} NOT NULL,
    id {uuid} NOT NULL,
    call_id TEXT NOT NULL,
    -- Null for a lone call: its run has the call's own id and no row.
    run_id {uuid},
    root_run_id {uuid},
    step_id {uuid},
    seq {int} NOT NULL DEFAULT 0,
    tool_id {uuid} NOT NULL REFERENCES tools (id) {late},
    tool_version TEXT NOT NULL,
    agent_id {uuid},
    workspace_id {uuid},
    principal TEXT NOT NULL,
    source TEXT NOT NULL CONSTRAINT calls_source
        CHECK (source = 'api' OR source = 'mcp' OR source = 'agent' OR source = 'web' OR source = 'cli'
            OR source = 'workflow' OR source = 'embed' OR source = 'schedule'),
    mode TEXT NOT NULL DEFAULT 'execute' CONSTRAINT calls_mode
        CHECK (mode = 'execute' OR mode = 'record' OR mode = 'dry_run'),
    egress_class TEXT NOT NULL CONSTRAINT calls_egress_class
        CHECK (egress_class = 'none' OR egress_class = 'read_only' OR egress_class = 'write'),
    effect_free {bool} NOT NULL,
    status TEXT NOT NULL CONSTRAINT calls_status
        CHECK (status = 'completed' OR status = 'running' OR status = 'failed' OR status = 'pending' OR status = 'approved'
            OR status = 'rejected' OR status = 'cancelled' OR status = 'outcome_unknown'),
    approval_status TEXT NOT NULL DEFAULT 'not_required' CONSTRAINT calls_approval_status
        CHECK (approval_status = 'not_required' OR approval_status = 'pending' OR approval_status = 'approved'
            OR approval_status = 'rejected'),
    approval_required {bool} NOT NULL DEFAULT FALSE,
    -- A `write`, or asked by a label: set at submit, never cleared; only a person's decision lets it run.
    person_required {bool} NOT NULL DEFAULT FALSE,
    approval_id {uuid},
    approval_decided_by TEXT,
    approval_reason TEXT,
    cost_estimate TEXT,
    cost TEXT,
    attempts {int} NOT NULL DEFAULT 0,
    cached {bool} NOT NULL DEFAULT FALSE,
    truncated {bool} NOT NULL DEFAULT FALSE,
    -- The caller's own report beside what the server counts.
    reported_cost TEXT,
    -- What is held of which budgets until the call ends: [{scope, micros}].
    reserved TEXT,
    -- The replica that runs it, and who asked it to stop.
    holder TEXT,
    cancel_requested_at {int},
    cancel_requested_by TEXT,
    definition_digest {bytes} NOT NULL,
    policy_revision {int} NOT NULL DEFAULT 0,
    -- Under which capability token it was asked, which standing grant let it run, and which secrets it was given:
    -- [{name, scope, scope_id, version}].
    token_id {uuid},
    grant_id {uuid},
    secrets TEXT,
    created_at {int} NOT NULL,
    started_at {int},
    completed_at {int},
    labels TEXT NOT NULL DEFAULT '[]',
    metadata TEXT,
    usage TEXT,
    decision TEXT NOT NULL,
    error TEXT,
    -- With which the log's entries commit to input, output and error. Erased with them.
    salt {bytes},
    input TEXT,
    proposed_input TEXT,
    output TEXT,
    attachments TEXT,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT calls_run FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE {late},
    CONSTRAINT calls_write_needs_person CHECK (egress_class <> 'write' OR person_required OR mode = 'dry_run' OR status = 'failed'),
    CONSTRAINT calls_person_decides CHECK (
        NOT person_required
        OR status = 'pending' OR status = 'rejected' OR status = 'failed' OR status = 'cancelled'
        OR mode = 'dry_run'
        OR (approval_status = 'approved' AND approval_decided_by IS NOT NULL
            AND approval_decided_by NOT IN ('system:timeout', 'system:fire_and_continue')))
) {by_id};
CREATE INDEX calls_tool ON calls (tenant_id, tool_id, id);
CREATE INDEX calls_principal ON calls (tenant_id, principal, id);
CREATE INDEX calls_root_run ON calls (tenant_id, root_run_id, id) WHERE root_run_id IS NOT NULL;
CREATE INDEX calls_run ON calls (tenant_id, run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX calls_agent ON calls (tenant_id, agent_id, id) WHERE agent_id IS NOT NULL;
CREATE INDEX calls_agent_status ON calls (tenant_id, agent_id, status, id) WHERE agent_id IS NOT NULL AND status <> 'completed';
CREATE INDEX calls_pending ON calls (tenant_id, id) WHERE approval_status = 'pending';
CREATE INDEX calls_unfinished_or_failed ON calls (tenant_id, status, id) WHERE status <> 'completed';

CREATE INDEX calls_approved ON calls (id) WHERE status = 'approved';
CREATE INDEX calls_running ON calls (holder, id) WHERE status = 'running';

-- Which call has which place in a run: a place is taken once.
CREATE TABLE run_calls (
    tenant_id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    seq {int} NOT NULL,
    call_id {uuid} NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE
) {strict};

-- Calls that somebody else's process carries out: waiting for a worker, or leased to one.
CREATE TABLE work (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    call_id {uuid} NOT NULL,
    tool_id {uuid} NOT NULL,
    -- Null while it waits. The submitter's own lease in `record` mode is the call's id.
    lease_id {uuid},
    worker TEXT,
    expires_at {int} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, call_id)
) {strict};
CREATE INDEX work_waiting ON work (tenant_id, tool_id, call_id) WHERE lease_id IS NULL;
CREATE UNIQUE INDEX work_lease ON work (tenant_id, lease_id) WHERE lease_id IS NOT NULL;
CREATE INDEX work_expiry ON work (expires_at);

-- What was reserved and spent, in millionths of the tenant's currency, per scope: `tenant:2026-11`, `run:ID`, …
CREATE TABLE budgets (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    scope TEXT NOT NULL,
    reserved {int} NOT NULL DEFAULT 0 CONSTRAINT budgets_reserved CHECK (reserved >= 0),
    spent {int} NOT NULL DEFAULT 0 CONSTRAINT budgets_spent CHECK (spent >= 0),
    PRIMARY KEY (tenant_id, scope)
) {strict};

-- Who is stopped at once: the whole tenant, an agent, or a tool.
CREATE TABLE kill_switches (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    scope TEXT NOT NULL CONSTRAINT kill_switches_scope CHECK (scope IN ('tenant', 'agent', 'tool')),
    object_id {uuid} NOT NULL,
    reason TEXT NOT NULL,
    set_by TEXT NOT NULL,
    set_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, scope, object_id)
) {strict};

-- What `append_note` keeps.
CREATE TABLE notes (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    notebook TEXT NOT NULL,
    line {int} NOT NULL,
    text TEXT NOT NULL,
    call_id {uuid} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, notebook, line)
) {strict};
-- A call adds one line, and is asked for by its id when nobody knows how it ended.
CREATE UNIQUE INDEX notes_call ON notes (tenant_id, call_id);

-- What `config_manager.update_yaml` did to the operator's files: one change for each call, written before the file is.
CREATE TABLE file_changes (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    call_id {uuid} NOT NULL,
    entry TEXT NOT NULL,
    operation TEXT NOT NULL,
    -- The change that this one took back.
    reverts {uuid},
    changed_by TEXT NOT NULL,
    before_digest {bytes} NOT NULL,
    after_digest {bytes} NOT NULL,
    difference TEXT NOT NULL,
    -- The file as it was, while it is kept.
    earlier {bytes},
    -- `begun` and no longer running: the digests tell whether it happened.
    state TEXT NOT NULL DEFAULT 'begun' CONSTRAINT file_changes_state CHECK (state IN ('begun', 'done', 'failed')),
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, call_id)
) {strict};
CREATE INDEX file_changes_entry ON file_changes (tenant_id, entry, created_at);

-- A call that waits for a person. What is decided on is the call's stored input, named here by its digest.
CREATE TABLE approvals (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    call_id {uuid} NOT NULL,
    tool_id {uuid} NOT NULL,
    agent_id {uuid},
    workspace_id {uuid},
    mode TEXT NOT NULL CONSTRAINT approvals_mode CHECK (mode IN ('blocking', 'continue_on_timeout', 'fire_and_continue')),
    state TEXT NOT NULL DEFAULT 'open' CONSTRAINT approvals_state CHECK (state IN ('open', 'approved', 'rejected', 'expired', 'cancelled')),
    -- Only a person's decision counts, whatever the mode: a write, or asked by a label.
    person_required {bool} NOT NULL,
    -- Every reason why it is asked: [{code, text, rule?, policy?}].
    reasons TEXT NOT NULL,
    need {int} NOT NULL DEFAULT 1,
    approvers TEXT NOT NULL DEFAULT '[]',
    separation {bool} NOT NULL DEFAULT FALSE,
    -- Counts up when the input is edited or more is asked: votes of an earlier round are void.
    round {int} NOT NULL DEFAULT 1,
    input_digest {bytes} NOT NULL,
    edited_by TEXT,
    -- How the caller came in and what the call was bound to: what is needed to judge it again.
    asker TEXT NOT NULL,
    binding TEXT NOT NULL,
    -- What it would do, as it was worked out when people were asked: {at, input_digest, behaviour_digest, plan?, failed?}.
    preview TEXT,
    -- What the request itself gave it to run in.
    timeout_ms {int},
    expires_at {int} NOT NULL,
    remind_at {int},
    -- Under a kill switch its deadline stands still.
    frozen_at {int},
    decided_at {int},
    decided_by TEXT,
    decision_reason TEXT,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE INDEX approvals_open ON approvals (tenant_id, id) WHERE state = 'open';
CREATE INDEX approvals_expiry ON approvals (expires_at) WHERE state = 'open' AND frozen_at IS NULL;
CREATE INDEX approvals_reminder ON approvals (remind_at) WHERE state = 'open' AND frozen_at IS NULL AND remind_at IS NOT NULL;
CREATE INDEX approvals_frozen ON approvals (tenant_id) WHERE state = 'open' AND frozen_at IS NOT NULL;
CREATE UNIQUE INDEX approvals_call ON approvals (tenant_id, call_id);

CREATE TABLE approval_votes (
    tenant_id {uuid} NOT NULL,
    approval_id {uuid} NOT NULL,
    round {int} NOT NULL,
    -- The person, not the credential: one vote each.
    voter TEXT NOT NULL,
    vote TEXT NOT NULL CONSTRAINT approval_votes_vote CHECK (vote IN ('approve', 'reject')),
    input_digest {bytes} NOT NULL,
    reason TEXT,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, approval_id, round, voter),
    FOREIGN KEY (tenant_id, approval_id) REFERENCES approvals (tenant_id, id) ON DELETE CASCADE
) {strict};

CREATE TABLE grants (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    -- Null for a standing grant.
    call_id {uuid},
    tool_id {uuid} NOT NULL,
    -- Of whose calls it holds for, where they belong to one.
    workspace_id {uuid},
    -- What it is bound to, whole, and the digest by which it is spent.
    binding TEXT NOT NULL,
    binding_digest {bytes} NOT NULL,
    issued_by TEXT NOT NULL,
    reason TEXT,
    expires_at {int} NOT NULL,
    spent_at {int},
    revoked_at {int},
    revoked_by TEXT,
    uses {int} NOT NULL DEFAULT 0,
    uses_max {int} NOT NULL DEFAULT 1,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT grants_spent_once CHECK (call_id IS NULL OR uses <= 1),
    CONSTRAINT grants_within_uses CHECK (uses <= uses_max)
) {strict};
CREATE INDEX grants_call ON grants (tenant_id, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX grants_standing ON grants (tenant_id, tool_id, id) WHERE call_id IS NULL AND revoked_at IS NULL;

-- Capability tokens: who may do what with them is in the signed text, whether they still work is here.
CREATE TABLE tokens (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    parent_id {uuid},
    -- Itself and all above it, itself first: [id].
    chain TEXT NOT NULL,
    principal TEXT NOT NULL,
    agent_id {uuid},
    -- The key, or the browser session, that minted the root; with it goes the token.
    key_id {uuid},
    session_id {uuid},
    -- The label context of whoever minted the root: minting washes nothing off.
    context TEXT NOT NULL,
    claims TEXT NOT NULL,
    calls_max {int},
    calls_used {int} NOT NULL DEFAULT 0,
    expires_at {int} NOT NULL,
    revoked_at {int},
    revoked_by TEXT,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tokens_within_calls CHECK (calls_max IS NULL OR calls_used <= calls_max)
) {strict};
CREATE INDEX tokens_parent ON tokens (tenant_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX tokens_agent ON tokens (tenant_id, agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX tokens_key ON tokens (tenant_id, key_id) WHERE key_id IS NOT NULL;
CREATE INDEX tokens_session ON tokens (tenant_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX tokens_principal ON tokens (tenant_id, principal, id);
CREATE INDEX tokens_expiry ON tokens (expires_at);

-- Proofs of possession that were shown: each counts once.
CREATE TABLE token_proofs (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    proof TEXT NOT NULL,
    expires_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, proof)
) {strict};
CREATE INDEX token_proofs_expiry ON token_proofs (expires_at);

-- The tenant's Cedar policies, each revision whole and for ever.
CREATE TABLE policies (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    revision {int} NOT NULL,
    source TEXT NOT NULL,
    note TEXT,
    uses_log_only {bool} NOT NULL,
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    activated_by TEXT,
    activated_at {int},
    PRIMARY KEY (tenant_id, revision)
) {strict};

CREATE TABLE guardrails (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    saved_by TEXT NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, name)
) {strict};

-- The operator's openings to hosts inside, of the system tenant.
CREATE TABLE egress_openings (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    spec TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};

-- "This tool, to this host, accepts these labels": the operator's word.
CREATE TABLE label_acceptances (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    spec TEXT NOT NULL,
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};

-- What callers without runs have seen, over calls: who, and for how long it is remembered.
CREATE TABLE label_contexts (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    context TEXT NOT NULL,
    labels {int} NOT NULL,
    origins TEXT NOT NULL,
    expires_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, context)
) {strict};
CREATE INDEX label_contexts_expiry ON label_contexts (expires_at);

-- Questions to people: a run that asked waits for the answer.
CREATE TABLE input_requests (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    call_id {uuid},
    agent_id {uuid},
    asked_by TEXT NOT NULL,
    title TEXT NOT NULL,
    instructions TEXT,
    input_schema TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CONSTRAINT input_requests_state CHECK (state IN ('open', 'answered', 'expired', 'cancelled')),
    answer TEXT,
    answered_by TEXT,
    -- When it was answered, expired or was cancelled.
    closed_at {int},
    expires_at {int} NOT NULL,
    -- Under a kill switch its deadline stands still.
    frozen_at {int},
    -- With which the log's entries commit to question and answer. Erased with them.
    salt {bytes},
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE INDEX input_requests_open ON input_requests (tenant_id, id) WHERE state = 'open';
CREATE INDEX input_requests_run ON input_requests (tenant_id, run_id, id);
CREATE INDEX input_requests_expiry ON input_requests (expires_at) WHERE state = 'open' AND frozen_at IS NULL;
CREATE INDEX input_requests_frozen ON input_requests (tenant_id, agent_id) WHERE state = 'open' AND frozen_at IS NOT NULL;
CREATE INDEX input_requests_asked_by ON input_requests (tenant_id, asked_by, id);
CREATE INDEX input_requests_answered_by ON input_requests (tenant_id, answered_by, id) WHERE answered_by IS NOT NULL;

CREATE TABLE webhooks (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    url TEXT NOT NULL,
    types TEXT NOT NULL,
    -- The shared secret, encrypted like any other; and the one before, for a while.
    key_id TEXT NOT NULL,
    sealed {bytes} NOT NULL,
    sealed_before {bytes},
    rotated_at {int},
    state TEXT NOT NULL DEFAULT 'active' CONSTRAINT webhooks_state CHECK (state IN ('active', 'paused')),
    paused_because TEXT,
    -- Attempts since something last arrived; and while nobody answers there, when it is tried next.
    failures {int} NOT NULL DEFAULT 0,
    next_at {int} NOT NULL DEFAULT 0,
    created_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};

-- What is to be told to somebody outside: written with what it tells of, sent until it arrives.
CREATE TABLE deliveries (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    kind TEXT NOT NULL CONSTRAINT deliveries_kind CHECK (kind IN ('webhook', 'mail')),
    -- Of a webhook; mail finds its readers when it is sent.
    webhook_id {uuid},
    event_type TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CONSTRAINT deliveries_state CHECK (state IN ('waiting', 'delivered', 'failed', 'held')),
    attempts {int} NOT NULL DEFAULT 0,
    next_at {int} NOT NULL,
    last_error TEXT,
    created_at {int} NOT NULL,
    delivered_at {int},
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE INDEX deliveries_due ON deliveries (next_at, tenant_id, webhook_id) WHERE state = 'waiting';
CREATE INDEX deliveries_waiting ON deliveries (tenant_id, webhook_id, attempts, id) WHERE state = 'waiting';
CREATE INDEX deliveries_webhook ON deliveries (tenant_id, webhook_id, id) WHERE webhook_id IS NOT NULL;
CREATE INDEX deliveries_age ON deliveries (created_at) WHERE state <> 'waiting';

CREATE TABLE request_ids (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    principal TEXT NOT NULL,
    request_id TEXT NOT NULL,
    body_digest {bytes} NOT NULL,
    call_id {uuid} NOT NULL,
    expires_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, principal, request_id)
) {strict};
CREATE INDEX request_ids_expiry ON request_ids (expires_at);

CREATE TABLE secrets (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    scope TEXT NOT NULL CONSTRAINT secrets_scope CHECK (scope IN ('user', 'workspace', 'org')),
    -- The user, the workspace or the tenant.
    scope_id {uuid} NOT NULL,
    name TEXT NOT NULL,
    -- Of the value. A secret that was taken away keeps its row without a value, so that no version comes twice: a grant
    -- names it.
    version {int} NOT NULL,
    -- Under which of the tenant's data keys.
    key_id TEXT,
    ciphertext {bytes},
    -- {tools, hosts, code}.
    allowed TEXT NOT NULL DEFAULT '{}',
    created_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, scope, scope_id, name),
    CONSTRAINT secrets_sealed CHECK ((key_id IS NULL) = (ciphertext IS NULL))
) {strict};
CREATE INDEX secrets_key ON secrets (tenant_id, key_id) WHERE key_id IS NOT NULL;

CREATE TABLE usage (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    day TEXT NOT NULL,
    agent_id {uuid} NOT NULL,
    tool_id {uuid} NOT NULL,
    calls {int} NOT NULL,
    failed {int} NOT NULL,
    cached {int} NOT NULL DEFAULT 0,
    duration_ms {int} NOT NULL DEFAULT 0,
    cost_micros {int} NOT NULL,
    -- What callers reported; kept beside, never trusted.
    reported_micros {int} NOT NULL DEFAULT 0,
    units {int} NOT NULL,
    -- Questions that hosted agents asked their models. They are of no tool: its id is nil.
    questions {int} NOT NULL DEFAULT 0,
    -- Of those, the ones whose model has no price: what they cost is in no sum.
    unpriced {int} NOT NULL DEFAULT 0,
    input_tokens {int} NOT NULL DEFAULT 0,
    cached_tokens {int} NOT NULL DEFAULT 0,
    output_tokens {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, day, agent_id, tool_id)
) {strict};

CREATE TABLE blobs (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    call_id {uuid},
    sha256 {bytes} NOT NULL,
    content_type TEXT NOT NULL,
    size_bytes {int} NOT NULL,
    location TEXT NOT NULL,
    labels TEXT NOT NULL DEFAULT '[]',
    created_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int},
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE INDEX blobs_call ON blobs (tenant_id, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX blobs_expiry ON blobs (expires_at) WHERE expires_at IS NOT NULL;

-- ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

-- Several events of one call may share a row: `events` holds seq .. last_seq.
CREATE TABLE events (
    tenant_id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    seq {int} NOT NULL,
    last_seq {int} NOT NULL,
    call_id {uuid},
    events TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
) {by_run};

-- Output as it comes, apart from the numbered events: `part` of the call, after the event `after_seq` of its run.
CREATE TABLE event_parts (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    run_id {uuid} NOT NULL,
    after_seq {int} NOT NULL,
    call_id {uuid} NOT NULL,
    part {int} NOT NULL,
    text TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, run_id, after_seq, call_id, part)
) {strict};

CREATE TABLE audit_leaves (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id) {late},
    id {uuid} NOT NULL,
    entry TEXT NOT NULL CONSTRAINT audit_leaves_size CHECK (octet_length(entry) < 65536),
    digest {bytes} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {by_id};

-- A leaf gets its index by an insert here, so that leaves themselves never change.
CREATE TABLE audit_sequence (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    leaf_index {int} NOT NULL,
    leaf_id {uuid} NOT NULL,
    PRIMARY KEY (tenant_id, leaf_index)
) {strict};
CREATE UNIQUE INDEX audit_sequence_leaf ON audit_sequence (tenant_id, leaf_id);

CREATE TABLE audit_nodes (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    level {int} NOT NULL,
    position {int} NOT NULL,
    hash {bytes} NOT NULL,
    PRIMARY KEY (tenant_id, level, position)
) {strict};

CREATE TABLE audit_checkpoints (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    size {int} NOT NULL,
    root {bytes} NOT NULL,
    note TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, size)
) {strict};

-- How far each tenant's log is: the leaves that have an index, up to which position they were taken, and what was
-- summed up of them. Positions are given by the database in the order of commits.
CREATE TABLE audit_progress (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    size {int} NOT NULL DEFAULT 0,
    position {int} NOT NULL DEFAULT 0,
    usage_size {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id)
) {strict};

-- What a leaf commits to by a salted digest. Erasing salt and body keeps the log true.
CREATE TABLE audit_payloads (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    leaf_id {uuid} NOT NULL,
    -- Whose data it is, for export and erasure.
    person TEXT,
    salt {bytes} NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant_id, leaf_id)
) {strict};
CREATE INDEX audit_payloads_person ON audit_payloads (tenant_id, person) WHERE person IS NOT NULL;

-- ── the server itself ────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE server_keys (
    kind TEXT NOT NULL,
    kid TEXT NOT NULL,
    tenant_id {uuid},
    wrapped {bytes} NOT NULL,
    state TEXT NOT NULL CONSTRAINT server_keys_state CHECK (state IN ('active', 'retiring', 'retired')),
    created_at {int} NOT NULL,
    PRIMARY KEY (kind, kid)
) {strict};
-- One key of a kind makes things at a time; two, since no two NULLs are equal.
CREATE UNIQUE INDEX server_keys_active ON server_keys (kind, tenant_id) WHERE state = 'active' AND tenant_id IS NOT NULL;
CREATE UNIQUE INDEX server_keys_active_global ON server_keys (kind) WHERE state = 'active' AND tenant_id IS NULL;

-- Background work is claimed by lease; there is no leader.
CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    expires_at {int} NOT NULL
) {strict};

-- `registry` counts configuration changes: a replica that sees a higher number loads anew.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    value {int} NOT NULL
) {strict};
INSERT INTO counters (name, value) VALUES ('registry', 0);

-- Runs of workflows. What happened is in the nodes; from them a run is taken up again wherever it was left.
CREATE TABLE workflow_runs (
    tenant_id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    workflow TEXT NOT NULL,
    revision {int} NOT NULL,
    -- As it was when the run began: what is saved or removed meanwhile changes nothing here.
    graph TEXT NOT NULL,
    inputs TEXT NOT NULL,
    -- By which credential it was begun: its rights are asked for anew.
    asker TEXT NOT NULL,
    -- The replica that is at it.
    holder TEXT,
    -- The call that it answers when it ends, and the label context of whoever reads that answer.
    for_call {uuid},
    reader TEXT,
    -- Of its inputs: what whoever began it had seen.
    labels TEXT NOT NULL,
    outputs TEXT,
    is_open {int} NOT NULL DEFAULT 1,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE UNIQUE INDEX workflow_runs_for_call ON workflow_runs (tenant_id, for_call) WHERE for_call IS NOT NULL;
CREATE INDEX workflow_runs_open ON workflow_runs (run_id) WHERE is_open = 1;
CREATE INDEX workflow_runs_last ON workflow_runs (tenant_id, workflow, run_id);

CREATE TABLE workflow_nodes (
    tenant_id {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    -- Ids and, below a map, indices: `each/0/look`.
    path TEXT NOT NULL,
    -- The same without indices: its place in the graph.
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT workflow_nodes_state
        CHECK (state IN ('running', 'waiting', 'completed', 'failed', 'skipped', 'cancelled')),
    step_id {uuid},
    -- The place of its call in the run: asked for again, the same call answers.
    seq {int},
    -- What it waits for, of which there is one at most.
    call_id {uuid},
    question_id {uuid},
    child_run_id {uuid},
    inputs TEXT NOT NULL,
    outputs TEXT NOT NULL,
    -- Of what arrived and, once it is settled, of what it gives; of its `output` where that carries less.
    labels TEXT NOT NULL,
    output_labels TEXT,
    error TEXT,
    started_at {int} NOT NULL,
    ended_at {int},
    PRIMARY KEY (tenant_id, run_id, path),
    FOREIGN KEY (tenant_id, run_id) REFERENCES workflow_runs (tenant_id, run_id) ON DELETE CASCADE
) {strict};

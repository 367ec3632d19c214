-- The tables of Toolgate, in both databases. Types in braces are spelled per database; {by_id} and {by_run} also say
-- what PostgreSQL partitions the large tables by.
-- Times are milliseconds since 1970 UTC; JSON is text, because what was judged is what is kept.
-- Every unique key holds the tenant, so that no tenant can learn what another has.

-- ── who ──────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE tenants (
    id {uuid} PRIMARY KEY,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    currency TEXT NOT NULL DEFAULT 'USD',
    -- Which PostgreSQL cluster holds the tenant, once there are several.
    cell TEXT NOT NULL DEFAULT '',
    -- The tenant-wide switch that lets an open tool set hold `write` tools too (they still ask).
    open_write {bool} NOT NULL DEFAULT FALSE,
    limits TEXT NOT NULL DEFAULT '{}',
    settings TEXT NOT NULL DEFAULT '{}',
    -- Which revision of the tenant's policies decides; 0 is the default set.
    policy_revision {int} NOT NULL DEFAULT 0,
    created_at {int} NOT NULL
) {strict};
CREATE UNIQUE INDEX tenants_slug ON tenants (slug);

CREATE TABLE workspaces (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE UNIQUE INDEX workspaces_slug ON workspaces (tenant_id, slug);

-- People, global; `users` is their membership in a tenant.
CREATE TABLE accounts (
    id {uuid} PRIMARY KEY,
    name TEXT NOT NULL,
    created_at {int} NOT NULL
) {strict};

-- Who somebody is at a provider of identities: by its word for them, never by an address.
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    account_id {uuid} NOT NULL REFERENCES accounts (id),
    -- The address that the provider vouched for at the last sign-in.
    email TEXT,
    created_at {int} NOT NULL,
    PRIMARY KEY (issuer, subject)
) {strict};
CREATE INDEX identities_account ON identities (account_id);
CREATE INDEX identities_email ON identities (issuer, email);

-- How long whoever guesses passwords waits, by a hash of whom they guess at or of the network they come from.
CREATE TABLE sign_in_delays (
    key {bytes} PRIMARY KEY,
    failures {int} NOT NULL,
    wait_ms {int} NOT NULL,
    next_at {int} NOT NULL,
    last_at {int} NOT NULL
) {strict};
CREATE INDEX sign_in_delays_last ON sign_in_delays (last_at);

CREATE TABLE users (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    account_id {uuid} REFERENCES accounts (id),
    kind TEXT NOT NULL CONSTRAINT users_kind CHECK (kind IN ('person', 'service')),
    name TEXT NOT NULL,
    -- The name as whoever signs in may spell it: folded, so that two names that read the same are one.
    login TEXT NOT NULL,
    -- Both of the membership, not of the person: who administers one tenant sets no password for another, and says
    -- nothing about whose an address is elsewhere.
    email TEXT,
    password_hash TEXT,
    disabled_at {int},
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT users_person_has_account CHECK (kind = 'service' OR account_id IS NOT NULL)
) {strict};
CREATE UNIQUE INDEX users_account ON users (tenant_id, account_id);
CREATE UNIQUE INDEX users_name ON users (tenant_id, login);
CREATE INDEX users_listed ON users (tenant_id, name);
CREATE UNIQUE INDEX users_email ON users (tenant_id, email);
CREATE INDEX users_of_account ON users (account_id);
-- Somebody who signs in with an address has not said in which tenant.
CREATE INDEX users_of_email ON users (email);

CREATE TABLE user_roles (
    tenant_id {uuid} NOT NULL,
    user_id {uuid} NOT NULL,
    role TEXT NOT NULL CONSTRAINT user_roles_role
        CHECK (role IN ('viewer', 'member', 'approver', 'author', 'admin', 'operator', 'service')),
    PRIMARY KEY (tenant_id, user_id, role),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
) {strict};

-- Words that tools demand by `required_permission`; the product's own rights come by roles alone.
CREATE TABLE user_permissions (
    tenant_id {uuid} NOT NULL,
    user_id {uuid} NOT NULL,
    permission TEXT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, permission),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
) {strict};

CREATE TABLE workspace_members (
    tenant_id {uuid} NOT NULL,
    workspace_id {uuid} NOT NULL,
    user_id {uuid} NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, user_id),
    FOREIGN KEY (tenant_id, workspace_id) REFERENCES workspaces (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
) {strict};

CREATE TABLE browser_sessions (
    tenant_id {uuid} NOT NULL,
    id {uuid} NOT NULL,
    user_id {uuid} NOT NULL,
    token_hash {bytes} NOT NULL,
    how TEXT NOT NULL CONSTRAINT browser_sessions_how CHECK (how IN ('link', 'password', 'oidc', 'invitation')),
    -- Where it began, for its owner to recognise.
    address TEXT,
    user_agent TEXT,
    created_at {int} NOT NULL,
    last_seen_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    -- When its owner last proved who they are, for what wants a fresh sign-in.
    proved_at {int},
    revoked_at {int},
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE UNIQUE INDEX browser_sessions_token ON browser_sessions (token_hash);
CREATE INDEX browser_sessions_user ON browser_sessions (tenant_id, user_id);

CREATE TABLE sign_in_links (
    tenant_id {uuid} NOT NULL,
    token_hash {bytes} NOT NULL,
    user_id {uuid} NOT NULL,
    purpose TEXT NOT NULL CONSTRAINT sign_in_links_purpose CHECK (purpose IN ('sign_in', 'reset')),
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    used_at {int},
    PRIMARY KEY (tenant_id, token_hash),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE INDEX sign_in_links_expires ON sign_in_links (expires_at);

CREATE TABLE invitations (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    token_hash {bytes} NOT NULL,
    name TEXT NOT NULL,
    email TEXT,
    -- What the new user will have, as JSON: roles, permissions, workspaces.
    rights TEXT NOT NULL,
    invited_by TEXT NOT NULL,
    -- Who vouches for it: an invitation is good as long as they may give what it gives.
    inviter TEXT NOT NULL,
    mailed {bool} NOT NULL DEFAULT FALSE,
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    accepted_at {int},
    revoked_at {int},
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE UNIQUE INDEX invitations_token ON invitations (token_hash);

-- ── agents ───────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE profiles (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    revision {int} NOT NULL DEFAULT 1,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE UNIQUE INDEX profiles_name ON profiles (tenant_id, name);

CREATE TABLE agents (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    name TEXT NOT NULL,
    workspace_id {uuid} NOT NULL,
    -- The user who answers for it; null when made on the local data folder.
    owner_id {uuid},
    profile_id {uuid},
    spec TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'active' CONSTRAINT agents_state CHECK (state IN ('active', 'frozen')),
    revision {int} NOT NULL DEFAULT 1,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT agents_workspace FOREIGN KEY (tenant_id, workspace_id) REFERENCES workspaces (tenant_id, id),
    CONSTRAINT agents_owner FOREIGN KEY (tenant_id, owner_id) REFERENCES users (tenant_id, id),
    CONSTRAINT agents_profile FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles (tenant_id, id)
) {strict};
CREATE UNIQUE INDEX agents_name ON agents (tenant_id, name);

CREATE TABLE api_keys (
    tenant_id {uuid} NOT NULL,
    id {uuid} NOT NULL,
    user_id {uuid} NOT NULL,
    -- Set: whoever holds the key acts as this agent.
    agent_id {uuid},
    name TEXT NOT NULL,
    secret_hash {bytes} NOT NULL,
    scopes TEXT NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int},
    revoked_at {int},
    last_used_at {int},
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE UNIQUE INDEX api_keys_name ON api_keys (tenant_id, user_id, name) WHERE revoked_at IS NULL;
-- A credential is looked up before its tenant is known.
CREATE INDEX api_keys_id ON api_keys (id);

-- ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Rows of the system tenant (the zero UUID) are global: code-defined tools, and what the operator made for all.
CREATE TABLE tools (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    id {uuid} NOT NULL,
    name TEXT NOT NULL,
    -- Case, `_`, `-` and look-alikes folded: two spellings can never be two tools.
    folded TEXT NOT NULL,
    origin TEXT NOT NULL CONSTRAINT tools_origin CHECK (origin IN ('code', 'tenant', 'upstream', 'openapi', 'bundle')),
    -- Of the newest version; seed 000's guard stands on these two.
    egress_class TEXT NOT NULL DEFAULT 'none' CONSTRAINT tools_egress_class CHECK (egress_class IN ('none', 'read_only', 'write')),
    requires_approval {bool} NOT NULL DEFAULT FALSE,
    risk TEXT NOT NULL DEFAULT 'safe' CONSTRAINT tools_risk CHECK (risk IN ('safe', 'sensitive', 'critical')),
    created_at {int} NOT NULL,
    PRIMARY KEY (id),
    -- For those whose tool must be of their own tenant.
    UNIQUE (tenant_id, id),
    CONSTRAINT tools_write_is_not_safe CHECK (NOT (egress_class = 'write' AND risk = 'safe'))
) {strict};
CREATE UNIQUE INDEX tools_folded ON tools (tenant_id, folded);

-- Schemas by content: history is complete and never duplicated.
CREATE TABLE schema_versions (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    digest {bytes} NOT NULL,
    schema_text TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, digest)
) {strict};

CREATE TABLE tool_versions (
    tenant_id {uuid} NOT NULL,
    id {uuid} NOT NULL,
    tool_id {uuid} NOT NULL,
    version TEXT NOT NULL,
    -- Without the schemas, which are kept by content.
    definition TEXT NOT NULL,
    input_schema {bytes} NOT NULL,
    output_schema {bytes},
    -- The file as its author wrote it, draft-07 and comments included.
    source TEXT,
    definition_digest {bytes} NOT NULL,
    behaviour_digest {bytes} NOT NULL,
    state TEXT NOT NULL DEFAULT 'active' CONSTRAINT tool_versions_state CHECK (state IN ('active', 'deprecated', 'blocked')),
    message TEXT,
    remove_by TEXT,
    replaced_by TEXT,
    published_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, tool_id) REFERENCES tools (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, input_schema) REFERENCES schema_versions (tenant_id, digest),
    FOREIGN KEY (tenant_id, output_schema) REFERENCES schema_versions (tenant_id, digest)
) {strict};
CREATE UNIQUE INDEX tool_versions_version ON tool_versions (tenant_id, tool_id, version);

-- What the operator says a tool does, where its runner tells too little to trust a milder word. A milder class holds for
-- the behaviour that the operator looked at and no other.
CREATE TABLE tool_classifications (
    tenant_id {uuid} NOT NULL,
    tool_id {uuid} NOT NULL,
    egress_class TEXT NOT NULL CONSTRAINT tool_classifications_class CHECK (egress_class IN ('none', 'read_only', 'write')),
    changes_state {bool},
    behaviour_digest {bytes} NOT NULL,
    reason TEXT NOT NULL,
    classified_by TEXT NOT NULL,
    classified_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, tool_id),
    FOREIGN KEY (tenant_id, tool_id) REFERENCES tools (tenant_id, id) ON DELETE CASCADE
) {strict};

-- Versions of tools that were deleted: a published `name@version` never means something else.
CREATE TABLE tool_tombstones (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    folded TEXT NOT NULL,
    version TEXT NOT NULL,
    definition_digest {bytes} NOT NULL,
    deleted_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, folded, version)
) {strict};

-- A tenant's patch on a global tool: enable, disable, rename, tighten; never a copy.
CREATE TABLE tool_overrides (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    tool_id {uuid} NOT NULL REFERENCES tools (id) ON DELETE CASCADE,
    enabled {bool},
    patch TEXT NOT NULL DEFAULT '{}',
    -- What the tenant renamed the tool to, folded: a name like any other, so it must be free and is then taken.
    renamed TEXT,
    revision {int} NOT NULL DEFAULT 1,
    updated_by TEXT NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, tool_id)
) {strict};

CREATE UNIQUE INDEX tool_overrides_renamed ON tool_overrides (tenant_id, renamed) WHERE renamed IS NOT NULL;

CREATE TABLE tool_aliases (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    folded TEXT NOT NULL,
    name TEXT NOT NULL,
    tool_id {uuid} NOT NULL REFERENCES tools (id) ON DELETE CASCADE,
    remove_by TEXT,
    visibility TEXT NOT NULL DEFAULT 'external' CONSTRAINT tool_aliases_visibility CHECK (visibility IN ('external', 'internal')),
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, folded)
) {strict};

CREATE TABLE tool_groups (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    tool_folded TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name, tool_folded)
) {strict};

CREATE TABLE assignments (
    tenant_id {uuid} NOT NULL,
    agent_id {uuid} NOT NULL,
    tool_id {uuid} NOT NULL REFERENCES tools (id) ON DELETE CASCADE,
    profile_id {uuid},
    created_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, tool_id),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT assignments_profile FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles (tenant_id, id)
) {strict};

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
    frozen_at {int},
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, id)
) {strict};
CREATE INDEX runs_principal ON runs (tenant_id, principal, id);
CREATE INDEX runs_root ON runs (tenant_id, root_run_id, id);
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

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
    -- Set, as JSON: nobody's key but what an OAuth client was allowed. Its access token is the key's secret, and is
    -- another after each refresh.
    client TEXT,
    -- The one address that such a token is good at.
    resource TEXT,
    -- Whom another issuer calls so, where its tokens are shown here and none of ours: a digest.
    outside {bytes},
    created_at {int} NOT NULL,
    expires_at {int},
    revoked_at {int},
    last_used_at {int},
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT api_keys_resource CHECK ((client IS NULL) = (resource IS NULL))
) {strict};
CREATE UNIQUE INDEX api_keys_name ON api_keys (tenant_id, user_id, name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX api_keys_outside ON api_keys (tenant_id, outside) WHERE revoked_at IS NULL;
-- A credential is looked up before its tenant is known.
CREATE INDEX api_keys_id ON api_keys (id);

-- What somebody allowed an OAuth client, until the client takes it: once, and within a minute.
CREATE TABLE oauth_codes (
    tenant_id {uuid} NOT NULL,
    code_hash {bytes} NOT NULL,
    user_id {uuid} NOT NULL,
    agent_id {uuid},
    -- The key that comes of it, so that whoever shows the code again ends that.
    key_id {uuid} NOT NULL,
    -- As in `api_keys`.
    client TEXT NOT NULL,
    resource TEXT NOT NULL,
    scopes TEXT NOT NULL,
    redirect TEXT NOT NULL,
    -- SHA-256 of what the client alone knows (PKCE).
    challenge {bytes} NOT NULL,
    expires_at {int} NOT NULL,
    used_at {int},
    PRIMARY KEY (tenant_id, code_hash),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE INDEX oauth_codes_hash ON oauth_codes (code_hash);
CREATE INDEX oauth_codes_expires ON oauth_codes (expires_at);

-- Each is good once; those that were used are kept, so that one that comes back is known as such.
CREATE TABLE oauth_refreshes (
    tenant_id {uuid} NOT NULL,
    token_hash {bytes} NOT NULL,
    key_id {uuid} NOT NULL,
    expires_at {int} NOT NULL,
    used_at {int},
    PRIMARY KEY (tenant_id, token_hash),
    FOREIGN KEY (tenant_id, key_id) REFERENCES api_keys (tenant_id, id) ON DELETE CASCADE
) {strict};
CREATE INDEX oauth_refreshes_hash ON oauth_refreshes (token_hash);
CREATE INDEX oauth_refreshes_key ON oauth_refreshes (tenant_id, key_id);
CREATE INDEX oauth_refreshes_expires ON oauth_refreshes (expires_at);

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

-- Plug-ins are the operator's: rows of the system tenant, which the tools of every tenant may name by their digest.
-- The component stands last, so that whoever reads the rest does not read it.
CREATE TABLE plugins (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    digest {bytes} NOT NULL CONSTRAINT plugins_digest UNIQUE,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    world TEXT NOT NULL CONSTRAINT plugins_world CHECK (world IN ('tool', 'detector')),
    description TEXT NOT NULL,
    size_bytes {int} NOT NULL,
    installed_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    component {bytes} NOT NULL,
    PRIMARY KEY (tenant_id, digest)
) {strict};
CREATE UNIQUE INDEX plugins_version ON plugins (tenant_id, name, version);

-- Servers of others. `place` is the digest of where it was and how it was started when somebody accepted it.
CREATE TABLE upstreams (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    spec TEXT NOT NULL,
    place {bytes} NOT NULL,
    -- What came of reading it the last time.
    reading TEXT,
    read_at {int},
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, name)
) {strict};
CREATE UNIQUE INDEX upstreams_folded ON upstreams (tenant_id, folded);

-- What a server offers that differs from what was accepted of it, until somebody accepts it or it goes.
CREATE TABLE upstream_offers (
    tenant_id {uuid} NOT NULL,
    upstream TEXT NOT NULL,
    -- By the server's own name.
    tool TEXT NOT NULL,
    definition TEXT NOT NULL,
    digest {bytes} NOT NULL,
    class TEXT NOT NULL CONSTRAINT upstream_offers_class
        CHECK (class IN ('description', 'annotation', 'widening', 'narrowing', 'breaking', 'rename')),
    replaces TEXT,
    seen_at {int} NOT NULL,
    -- Who said no to exactly this. Another offer of the tool replaces the row, and waits again.
    refused_by TEXT,
    refused_at {int},
    PRIMARY KEY (tenant_id, upstream, tool),
    CONSTRAINT upstream_offers_refused CHECK ((refused_by IS NULL) = (refused_at IS NULL)),
    FOREIGN KEY (tenant_id, upstream) REFERENCES upstreams (tenant_id, name) ON DELETE CASCADE
) {strict};

-- Graphs of tools, agents and questions to people.
CREATE TABLE workflows (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    description TEXT,
    -- The revision that holds; the next is counted from it, also after others were removed.
    revision {int} NOT NULL,
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, name)
) {strict};
CREATE UNIQUE INDEX workflows_folded ON workflows (tenant_id, folded);

-- Every graph that a workflow ever had. None is changed.
CREATE TABLE workflow_revisions (
    tenant_id {uuid} NOT NULL,
    workflow TEXT NOT NULL,
    revision {int} NOT NULL,
    graph TEXT NOT NULL,
    -- What its nodes ask of others, so that a tool made of it can be judged without reading the graph.
    uses TEXT NOT NULL,
    digest {bytes} NOT NULL,
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, workflow, revision),
    FOREIGN KEY (tenant_id, workflow) REFERENCES workflows (tenant_id, name) ON DELETE CASCADE
) {strict};

-- Instructions with places for arguments, which clients offer their users and agents are given.
CREATE TABLE skills (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    -- The version that holds.
    digest {bytes} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, name)
) {strict};
CREATE UNIQUE INDEX skills_folded ON skills (tenant_id, folded);

-- Every text that a skill ever had, by its digest.
CREATE TABLE skill_versions (
    tenant_id {uuid} NOT NULL,
    skill TEXT NOT NULL,
    digest {bytes} NOT NULL,
    spec TEXT NOT NULL,
    -- The file as its author wrote it.
    source TEXT NOT NULL,
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, skill, digest),
    FOREIGN KEY (tenant_id, skill) REFERENCES skills (tenant_id, name) ON DELETE CASCADE
) {strict};

-- Model providers: where each is, in which manner it is spoken to, which secret is its key, what its models cost.
CREATE TABLE providers (
    tenant_id {uuid} NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    spec TEXT NOT NULL,
    -- Counts up with every change.
    revision {int} NOT NULL,
    saved_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (tenant_id, name)
) {strict};
CREATE UNIQUE INDEX providers_folded ON providers (tenant_id, folded);

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
    -- The plug-in that runs it: as long as there is such a version, the plug-in stays.
    plugin {bytes} REFERENCES plugins (digest),
    state TEXT NOT NULL DEFAULT 'active' CONSTRAINT tool_versions_state CHECK (state IN ('active', 'deprecated', 'blocked')),
    message TEXT,
    remove_by TEXT,
    replaced_by TEXT,
    -- Where it stood when the server of others that offers it left it out, to go on from there.
    was_state TEXT CONSTRAINT tool_versions_was_state CHECK (was_state IN ('active', 'deprecated')),
    was_message TEXT,
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


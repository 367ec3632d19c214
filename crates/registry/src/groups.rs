//! The tool groups that agents name (seed 001's `toolGroups`). They are data: a tenant may add to them.

/// Group and tool, seeded into the system tenant. A name without a tool waits for it.
pub const SEEDED_GROUPS: &[(&str, &[&str])] = &[
    (
        "entity",
        &[
            "searchEntities",
            "getEntity",
            "createEntity",
            "updateEntity",
            "deleteEntity",
            "createRelation",
            "listEntityTypes",
            "getEntityStats",
            "searchDocuments",
        ],
    ),
    ("web", &["web_search", "http_get"]),
    (
        "admin",
        &[
            "updateEntityTypeSchema",
            "updateAgentConfig",
            "manageTools",
            "manageView",
            "inspectViews",
            "generateView",
            "saveTransientView",
        ],
    ),
    ("task", &["listTasks", "manageTask", "triggerTask", "getTaskStatus", "retrySession"]),
    ("goal", &["getGoalSystem", "runGoalCheckIn"]),
    ("context", &["addCorrection", "addLesson"]),
    ("filter", &["filterEntities", "extractFilters"]),
    ("research", &["researchEntities", "searchDocuments"]),
    ("media", &["generate-image", "editImage", "processImage", "generateVideo"]),
];

//! Every route, in one place. Those of [`behind_the_door`] have a caller; the few of [`in_front`] have none.

mod agent_runs;
mod agents;
mod approvals;
pub mod audit;
mod calls;
mod compat;
mod connections;
mod control;
mod database_roles;
mod document;
mod events;
mod grants;
mod guardrails;
mod imports;
mod inputs;
mod invitations;
mod invoke;
mod keys;
mod labels;
mod oauth;
mod paging;
mod people;
mod plugins;
mod policies;
mod profiles;
mod providers;
mod replay;
mod runs;
pub mod schemas;
mod search;
mod secrets;
mod server_keys;
mod session;
mod sessions;
mod settings;
mod skills;
mod system;
mod tokens;
mod tool_tests;
mod tool_views;
mod tools;
mod upstreams;
mod usage;
mod webhooks;
mod workflows;

use std::convert::Infallible;
use std::sync::LazyLock;

use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse as _, Response};
use axum::{Router, middleware};
use tower::{Service, ServiceExt as _};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::invoke::decides;
use crate::app::App;
use crate::auth;
use crate::extract::BODY_BYTES_MAX;
use crate::problem::Problem;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Toolgate",
        description = "The gate between agents, people and their tools. JSON in and out; a refusal is a problem with what to do. `Toolgate-Tenant: SLUG` names the tenant where the caller may choose.",
        license(name = "Apache-2.0")
    ),
    // What only a parameter refers to.
    components(schemas(toolgate_contracts::Source, usage::GroupedBy))
)]
struct Document;

/// The routes without what describes them and with no application behind them. To collect the descriptions of all takes
/// longer than a request, and no application needs them.
struct Routes {
    in_front: Router<App>,
    before: Router<App>,
    behind: Router<App>,
}

static ROUTES: LazyLock<Routes> = LazyLock::new(|| {
    let [in_front, before, behind] = [in_front(), before_the_sign_in(), api()].map(|routes| routes.split_for_parts().0);
    Routes { in_front, before, behind }
});

pub fn router(app: &App) -> Router {
    let Routes { in_front, before, behind } = &*ROUTES;
    let before = before.clone().route_layer(middleware::from_fn_with_state(app.clone(), auth::own_pages));
    let behind = behind.clone().route_layer(middleware::from_fn_with_state(app.clone(), auth::identify));
    let router = in_front.clone().merge(before).merge(behind);
    let tools = alias_of_tools(router.clone().with_state(app.clone()));
    router
        .nest_service("/api/tools", tools)
        .route("/openapi.json", axum::routing::get(document::served))
        .route("/api/{*rest}", axum::routing::any(no_route))
        .method_not_allowed_fallback(no_route)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app.clone())
}

/// The OpenAPI document of every route.
pub fn document() -> utoipa::openapi::OpenApi {
    document::complete(in_front().merge(before_the_sign_in()).split_for_parts().1, api().split_for_parts().1)
}

/// As it is committed in `docs/openapi.json`: for people to read and compare.
pub fn document_text() -> String {
    let text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    format!("{text}\n")
}

fn in_front() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(session::session))
        .routes(routes!(session::ways))
        .routes(routes!(session::oidc_callback))
        .routes(routes!(invoke::invoke))
        .routes(routes!(invoke::jwks))
        .routes(routes!(oauth::resource))
        .routes(routes!(oauth::resource_root))
        .routes(routes!(oauth::resource_narrowed))
        .routes(routes!(oauth::server))
        .routes(routes!(oauth::register))
        .routes(routes!(oauth::token))
        .routes(routes!(oauth::revoke))
        .routes(routes!(connections::document))
        .routes(crate::mcp::only_here(routes!(crate::mcp::post, crate::mcp::get)))
        .routes(crate::mcp::only_here(routes!(crate::mcp::post_narrowed, crate::mcp::get_narrowed)))
}

/// What a browser sends that nobody is signed in in yet: no other site's page may.
fn before_the_sign_in() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(session::show_link))
        .routes(routes!(session::sign_in))
        .routes(routes!(session::sign_in_by_password))
        .routes(routes!(session::begin_oidc))
        .routes(routes!(session::ask_for_reset))
        .routes(routes!(session::finish_reset))
        .routes(routes!(session::show_invitation))
        .routes(routes!(session::accept_invitation))
}

/// What only an identified caller reaches.
fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(session::me))
        .routes(routes!(session::sign_out))
        .routes(routes!(session::step_up))
        .routes(routes!(session::change_tenant))
        .routes(routes!(session::change_password))
        .routes(routes!(sessions::list, sessions::end_all))
        .routes(routes!(sessions::end))
        .routes(routes!(tools::list, tools::register))
        .routes(routes!(tools::lint))
        .routes(routes!(plugins::list, plugins::install))
        .routes(routes!(plugins::show, plugins::remove))
        .routes(routes!(upstreams::list))
        .routes(routes!(upstreams::show, upstreams::save, upstreams::remove))
        .routes(routes!(upstreams::test))
        .routes(routes!(upstreams::refresh))
        .routes(routes!(upstreams::accept))
        .routes(routes!(upstreams::refuse))
        .routes(routes!(upstreams::review))
        .routes(routes!(connections::connect))
        .routes(routes!(connections::connected))
        .routes(routes!(connections::disconnect))
        .merge(
            OpenApiRouter::new()
                .routes(routes!(imports::openapi))
                .layer(DefaultBodyLimit::max(imports::BODY_BYTES_MAX)),
        )
        .routes(routes!(tools::show, tools::delete, tool_tests::edit))
        .routes(routes!(tool_tests::test))
        .routes(routes!(tool_tests::test_stream))
        .routes(routes!(tools::versions))
        .routes(routes!(tools::diff))
        .routes(routes!(tools::set_enabled))
        .routes(routes!(tools::set_state))
        .routes(routes!(tools::set_override, tools::clear_override))
        .routes(routes!(control::classify, control::declassify))
        .routes(routes!(control::show_limits, control::set_limits))
        .routes(routes!(control::kill_switches, control::set_kill_switch))
        .routes(routes!(usage::usage))
        .routes(routes!(compat::tool_invocations))
        .routes(routes!(compat::tool_invocations_v))
        .routes(routes!(compat::tool_runs))
        .routes(routes!(compat::execute))
        .routes(routes!(compat::capabilities))
        .routes(routes!(compat::audit_events))
        .routes(routes!(compat::audit_event_key))
        .routes(routes!(calls::preflight))
        .routes(routes!(calls::submit, calls::list))
        .routes(routes!(calls::show))
        .routes(routes!(calls::cancel))
        .routes(routes!(calls::complete))
        .routes(routes!(calls::settle))
        .routes(routes!(calls::receipt))
        .routes(routes!(calls::proof))
        .routes(routes!(calls::blob))
        .routes(routes!(runs::open, runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::add_step))
        .routes(routes!(runs::end))
        .routes(routes!(runs::tool_event))
        .routes(routes!(inputs::ask))
        .routes(routes!(inputs::list))
        .routes(routes!(inputs::show))
        .routes(routes!(inputs::answer))
        .routes(routes!(inputs::cancel))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::count))
        .routes(routes!(approvals::decide_all))
        .routes(routes!(approvals::show))
        .routes(routes!(approvals::decide))
        .routes(routes!(grants::list, grants::create))
        .routes(routes!(grants::revoke))
        .routes(routes!(events::of_run))
        .routes(routes!(events::of_tenant))
        .routes(routes!(runs::lease))
        .routes(routes!(runs::heartbeat))
        .routes(routes!(runs::complete))
        .routes(routes!(search::search))
        .routes(routes!(search::categories))
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::show, agents::replace, agents::delete))
        .routes(routes!(agents::set_state))
        .routes(routes!(agents::tools))
        .routes(routes!(agents::assign, agents::revoke))
        .routes(routes!(agents::assignments))
        .routes(routes!(agent_runs::start))
        .routes(routes!(agent_runs::outputs))
        .routes(routes!(agent_runs::turns))
        .routes(routes!(agent_runs::resume))
        .routes(routes!(replay::bundle))
        .routes(routes!(replay::again))
        .routes(routes!(skills::list, skills::add))
        .routes(routes!(skills::show, skills::delete))
        .routes(routes!(skills::fill))
        .routes(routes!(providers::list))
        .routes(routes!(providers::show, providers::put, providers::delete))
        .routes(routes!(providers::test))
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::show, workflows::put, workflows::delete))
        .routes(routes!(workflows::check))
        .routes(routes!(workflows::publish))
        .routes(routes!(workflows::materialize_call))
        .routes(routes!(workflows::materialize_pin))
        .routes(routes!(workflows::run))
        .routes(routes!(workflows::stands))
        .routes(routes!(workflows::nodes))
        .routes(routes!(profiles::list, profiles::create))
        .routes(routes!(profiles::show, profiles::replace, profiles::delete))
        .routes(routes!(policies::list, policies::save))
        .routes(routes!(policies::check))
        .routes(routes!(policies::test))
        .routes(routes!(policies::show))
        .routes(routes!(policies::activate))
        .routes(routes!(guardrails::list))
        .routes(routes!(guardrails::test))
        .routes(routes!(guardrails::show, guardrails::replace, guardrails::delete))
        .routes(routes!(labels::contexts))
        .routes(routes!(labels::reset))
        .routes(routes!(labels::acceptances, labels::accept))
        .routes(routes!(labels::withdraw))
        .routes(routes!(labels::asks))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(oauth::asked))
        .routes(routes!(oauth::decide))
        .routes(routes!(tokens::list, tokens::mint, tokens::revoke_of_agent))
        .routes(routes!(tokens::show, tokens::revoke))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::which))
        .routes(routes!(secrets::rotate))
        .routes(routes!(secrets::set, secrets::delete))
        .routes(routes!(secrets::allow))
        .routes(routes!(server_keys::list))
        .routes(routes!(server_keys::rewrap))
        .routes(routes!(server_keys::rotate))
        .routes(routes!(people::list_tenants, people::create_tenant))
        .routes(routes!(people::edit_tenant))
        .routes(routes!(people::list_workspaces, people::create_workspace))
        .routes(routes!(people::list_users, people::create_user))
        .routes(routes!(people::show_user, people::edit_user))
        .routes(routes!(people::sign_in_link))
        .routes(routes!(sessions::reset))
        .routes(routes!(sessions::list_of, sessions::end_all_of))
        .routes(routes!(sessions::end_of))
        .routes(routes!(invitations::list, invitations::create))
        .routes(routes!(invitations::resend))
        .routes(routes!(invitations::revoke))
        .routes(routes!(people::erase_person))
        .routes(routes!(people::export_person))
        .routes(routes!(settings::show, settings::replace))
        .routes(routes!(settings::openings, settings::open))
        .routes(routes!(settings::close))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::keys))
        .routes(routes!(webhooks::show, webhooks::replace, webhooks::delete))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::resume))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(audit::entries))
        .routes(routes!(audit::prove))
        .routes(routes!(audit::checkpoint))
        .routes(routes!(audit::checkpoints))
        .routes(routes!(audit::consistency))
        .routes(routes!(audit::heads))
        .routes(routes!(audit::key))
        .routes(routes!(audit::export))
        .routes(routes!(system::retention))
        .routes(routes!(system::config))
        .routes(routes!(system::doctor))
        .routes(routes!(system::database))
        .routes(routes!(system::backup))
        .routes(routes!(database_roles::list))
        .routes(routes!(database_roles::map, database_roles::unmap))
}

/// Seed 001's addresses of tools: the same handlers, under the path without a version. What is nested has no parameters
/// of its own, so that the handlers find theirs.
fn alias_of_tools(
    router: Router,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static {
    tower::service_fn(move |mut request: Request| {
        let router = router.clone();
        async move {
            let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
            // The prefix is cut off; the list itself has nothing behind it.
            let rest = target.strip_prefix("/?").map(|query| format!("?{query}"));
            let rest = rest.unwrap_or_else(|| if target == "/" { String::new() } else { target.to_owned() });
            request.extensions_mut().insert(auth::tokens::AskedFor(format!("/api/tools{rest}")));
            match format!("/api/v1/tools{rest}").parse() {
                Ok(uri) => *request.uri_mut() = uri,
                Err(_) => return Ok(no_route(request.uri().clone()).await.into_response()),
            }
            router.oneshot(request).await
        }
    })
}

async fn no_route(uri: axum::http::Uri) -> Problem {
    toolgate_contracts::Fault::new(
        toolgate_contracts::FaultKind::NotFound,
        format!("there is no route `{}` with this method", uri.path()),
        "see `/openapi.json` for all routes",
    )
    .into()
}

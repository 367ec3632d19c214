//! A bare server of the protocol, as its Rust kit makes one: one tool that says back what it is told, no rights, no record.
//!
//! Says where it listens in one line of JSON, and ends with its input.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
struct Echo {
    schema: Arc<JsonObject>,
}

impl Echo {
    fn new() -> Self {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let Value::Object(schema) = schema else { unreachable!("an object was written") };
        Self { schema: Arc::new(schema) }
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("echo", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = Tool::new("echo", "Says back what it is told", Arc::clone(&self.schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = call.arguments.as_ref().and_then(|arguments| arguments.get("text")).and_then(Value::as_str);
        let text = text.ok_or_else(|| ErrorData::invalid_params("`text` is missing", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = StreamableHttpServerConfig::default().with_json_response(true).with_legacy_session_mode(false);
    let echo = Echo::new();
    let service: StreamableHttpService<Echo, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(echo.clone()), Arc::default(), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", json!({"address": listener.local_addr()?.to_string()}));
    let served = axum::serve(listener, axum::Router::new().nest_service("/mcp", service));
    let mut nothing = Vec::new();
    let mut input = tokio::io::stdin();
    tokio::select! {
        ended = served.into_future() => Ok(ended?),
        ended = input.read_to_end(&mut nothing) => ended.map(|_| ()).map_err(Into::into),
    }
}

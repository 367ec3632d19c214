//! A client's file as text that is edited and not written anew: comments, order and spacing of what is not ours stay.
//!
//! Deliberately absent: what a server in it means, which is `servers`.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstLeafNode, CstNode, CstObject, CstRootNode};
use serde_json::Value;

use super::Kind;

/// What stands for a text that is not shown.
pub const HIDDEN: &str = "[hidden]";
/// Some programs begin files with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Comments and commas at the end of lists are what these clients write and read; nothing looser is.
const READ: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Where servers stand: the members that lead there.
pub type Section = Vec<String>;

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub section: Section,
    pub key: String,
    pub server: Value,
}

pub struct Document {
    text: String,
}

impl Document {
    /// What is there must come out again as it is, or it is not touched.
    pub fn read(text: &str) -> Result<Self, String> {
        let document = Self { text: text.to_owned() };
        let root = document.root()?;
        if root.to_string() != document.body() {
            return Err("cannot be edited without changing what is not ours".to_owned());
        }
        let Some(value) = root.value() else { return Ok(document) };
        let Some(object) = value.as_object() else { return Err("does not hold an object".to_owned()) };
        no_twins(&object)?;
        Ok(document)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn body(&self) -> &str {
        self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text)
    }

    fn root(&self) -> Result<CstRootNode, String> {
        CstRootNode::parse(self.body(), &READ).map_err(|error| format!("is not JSON: {error}"))
    }

    /// The places that have servers, of those that a client reads.
    pub fn sections(&self, kind: Kind, project: Option<&str>) -> Result<Vec<Section>, String> {
        let root = self.root()?;
        let mut sections = Vec::new();
        let usual: &[&[&str]] = match kind {
            Kind::Vscode => &[&["servers"], &["mcp", "servers"]],
            Kind::ClaudeDesktop | Kind::ClaudeCode | Kind::Cursor => &[&["mcpServers"]],
        };
        if project.is_none() {
            sections.extend(usual.iter().map(|path| path.iter().map(|&word| word.to_owned()).collect::<Section>()));
        }
        if kind == Kind::ClaudeCode
            && let Some(projects) = root.object_value().and_then(|root| root.object_value("projects"))
        {
            let names = projects.properties().into_iter().filter_map(|property| property.decoded_name());
            let names = names.filter(|name| project.is_none_or(|project| project == name));
            sections.extend(names.map(|name| vec!["projects".to_owned(), name, "mcpServers".to_owned()]));
        }
        sections.retain(|section| within(&root, section).is_some());
        Ok(sections)
    }

    /// Where a client that has no servers yet would have them.
    pub fn first_section(kind: Kind) -> Section {
        let word = if kind == Kind::Vscode { "servers" } else { "mcpServers" };
        vec![word.to_owned()]
    }

    pub fn servers(&self, sections: &[Section]) -> Result<Vec<Found>, String> {
        let root = self.root()?;
        let mut found = Vec::new();
        for section in sections {
            let Some(servers) = within(&root, section) else { continue };
            for property in servers.properties() {
                let key = property.decoded_name().ok_or("has a name that cannot be read")?;
                let server = property.value().and_then(|value| value.to_serde_value()).unwrap_or_default();
                found.push(Found { section: section.clone(), key, server });
            }
        }
        Ok(found)
    }

    /// The same without the servers that are named, and with one more in each place that is named.
    pub fn edited(
        &self,
        without: &[(Section, String)],
        with: &[(Section, String)],
        new: &Value,
    ) -> Result<Self, String> {
        let root = self.root()?;
        for (section, key) in without {
            let server = within(&root, section).and_then(|servers| servers.get(key));
            server.ok_or_else(|| format!("has no `{key}` any more"))?.remove();
        }
        for (section, key) in with {
            let mut servers = root.object_value_or_create().ok_or("does not hold an object")?;
            for word in section {
                servers =
                    servers.object_value_or_create(word).ok_or_else(|| format!("has a `{word}` that is no object"))?;
            }
            servers.append(key, input(new));
        }
        let mark = if self.body().len() == self.text.len() { String::new() } else { BYTE_ORDER_MARK.to_string() };
        Self::read(&format!("{mark}{root}"))
    }

    /// For eyes: without values that may be secret, and without whatever else the file is about.
    pub fn masked(&self, sections: &[Section], is_plain: impl Fn(&str, &str) -> bool) -> String {
        let Ok(root) = self.root() else { return String::new() };
        let shown: Vec<CstObject> = sections.iter().filter_map(|section| within(&root, section)).collect();
        if let Some(value) = root.value() {
            mask(&value);
        }
        // Masked is masked: the servers are read from another copy and written over it.
        let Ok(original) = self.root() else { return String::new() };
        for (section, masked) in sections.iter().filter(|section| within(&root, section).is_some()).zip(shown) {
            let Some(servers) = within(&original, section) else { continue };
            for (from, to) in servers.properties().into_iter().zip(masked.properties()) {
                if let (Some(from), Some(to)) = (from.value(), to.value()) {
                    unmask(&from, &to, "", &is_plain);
                }
            }
        }
        for node in root.children() {
            hide_comment(&node);
        }
        root.to_string()
    }
}

fn within(root: &CstRootNode, section: &[String]) -> Option<CstObject> {
    section.iter().try_fold(root.object_value()?, |object, word| object.object_value(word))
}

/// Of two members of one name, a client may read the one and we the other.
fn no_twins(object: &CstObject) -> Result<(), String> {
    let mut names: Vec<String> = Vec::new();
    for property in object.properties() {
        let name = property.decoded_name().ok_or("has a name that cannot be read")?;
        if names.contains(&name) {
            return Err(format!("has `{}` twice in one place", name.escape_debug()));
        }
        names.push(name);
        if let Some(inner) = property.object_value() {
            no_twins(&inner)?;
        }
    }
    Ok(())
}

fn mask(node: &CstNode) {
    if let Some(text) = node.as_string_lit() {
        text.set_raw_value(format!("\"{HIDDEN}\""));
        return;
    }
    for child in node.children() {
        hide_comment(&child);
        match child.as_object_prop() {
            Some(property) => {
                for part in property.children() {
                    hide_comment(&part);
                }
                if let Some(value) = property.value() {
                    mask(&value);
                }
            }
            None if child.as_token().is_none() => mask(&child),
            None => {}
        }
    }
}

fn hide_comment(node: &CstNode) {
    if let CstNode::Leaf(CstLeafNode::Comment(comment)) = node {
        let hidden = if comment.is_line_comment() { "// …" } else { "/* … */" };
        comment.set_raw_value(hidden.to_owned());
    }
}

/// Puts back what may be seen. Both sides have the same shape.
fn unmask(from: &CstNode, to: &CstNode, member: &str, is_plain: &impl Fn(&str, &str) -> bool) {
    match (from.as_string_lit(), to.as_string_lit()) {
        (Some(from), Some(to)) => {
            if from.decoded_value().is_ok_and(|value| is_plain(member, &value)) {
                to.set_raw_value(from.raw_value());
            }
        }
        _ => {
            if let (Some(from), Some(to)) = (from.as_object(), to.as_object()) {
                for (from, to) in from.properties().into_iter().zip(to.properties()) {
                    let name = from.decoded_name().unwrap_or_default();
                    if let (Some(from), Some(to)) = (from.value(), to.value()) {
                        unmask(&from, &to, &name, is_plain);
                    }
                }
            } else if let (Some(from), Some(to)) = (from.as_array(), to.as_array()) {
                // A flag says what comes after it.
                let mut before = member.to_owned();
                for (from, to) in from.elements().into_iter().zip(to.elements()) {
                    unmask(&from, &to, &before, is_plain);
                    before = from.as_string_lit().and_then(|text| text.decoded_value().ok()).unwrap_or_default();
                }
            }
        }
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VSCODE: &str = "{\n  // mine: hunter2\n  \"inputs\": [{\"id\": \"k\"}],\n  \"servers\": {\n    \"a\": {\"url\": \"https://a.example/mcp\", \"headers\": {\"Authorization\": \"Bearer hunter2\"}}, // one\n    \"b\": {\"command\": \"npx\", \"args\": [\"-y\", \"--api-key\", \"hunter2\"]},\n  },\n}\n";

    fn of(section: &str) -> Section {
        vec![section.to_owned()]
    }

    #[test]
    fn what_is_not_ours_stays_as_it_is() {
        let document = Document::read(VSCODE).unwrap();
        let sections = document.sections(Kind::Vscode, None).unwrap();
        assert_eq!(sections, [of("servers")]);
        let names: Vec<String> = document.servers(&sections).unwrap().into_iter().map(|found| found.key).collect();
        assert_eq!(names, ["a", "b"]);
        let edited = document
            .edited(
                &[(of("servers"), "b".to_owned())],
                &[(of("servers"), "toolgate".to_owned())],
                &json!({"type": "http", "url": "http://127.0.0.1:8787/mcp"}),
            )
            .unwrap();
        insta::assert_snapshot!(edited.text(), @r#"
        {
          // mine: hunter2
          "inputs": [{"id": "k"}],
          "servers": {
            "a": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer hunter2"}}, // one
            "toolgate": {
              "type": "http",
              "url": "http://127.0.0.1:8787/mcp",
            },
          },
        }
        "#);
    }

    #[test]
    fn eyes_see_no_secret_and_nothing_else_of_the_file() {
        let document = Document::read(VSCODE).unwrap();
        let masked = document.masked(&[of("servers")], |_, value| !value.contains("hunter2"));
        assert!(!masked.contains("hunter2"), "{masked}");
        assert!(masked.contains("https://a.example/mcp") && masked.contains("\"--api-key\""), "{masked}");
        assert!(masked.contains("\"id\": \"[hidden]\""), "{masked}");
    }

    #[test]
    fn a_file_that_may_be_read_in_two_ways_is_not_touched() {
        let check = |text: &str, expected: &str| {
            let refused = Document::read(text).err().unwrap_or_default();
            assert!(refused.contains(expected), "{text}: {refused}");
        };
        check("{\"mcpServers\": {}, \"mcpServers\": {}}", "twice");
        check("{\"mcpServers\": {\"a\": {}, \"\\u0061\": {}}}", "twice");
        check("[]", "object");
        check("{\"a\" 1}", "JSON");
        check("{'a': 1}", "JSON");
        check(&"[".repeat(100_000), "JSON");
        for text in ["", "{}", "\u{feff}{\r\n}\r\n", "{\"a\": [1, 2.50, 1e3, null, true,],}"] {
            assert_eq!(Document::read(text).unwrap().text(), text);
        }
    }

    #[test]
    fn projects_have_servers_of_their_own() {
        let text = r#"{"mcpServers": {"a": {}}, "projects": {"/x": {"mcpServers": {"b": {}}}, "/y": {}}}"#;
        let document = Document::read(text).unwrap();
        let all = document.sections(Kind::ClaudeCode, None).unwrap();
        assert_eq!(all.len(), 2);
        let one = document.sections(Kind::ClaudeCode, Some("/x")).unwrap();
        assert_eq!(document.servers(&one).unwrap()[0].key, "b");
        assert_eq!(document.sections(Kind::Cursor, None).unwrap(), [of("mcpServers")]);
    }
}

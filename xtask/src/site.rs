//! The documents as a small static site in `target/site`: plain HTML, one style sheet, nothing from elsewhere.
//!
//! A page keeps the path of its document, so that links between documents hold in the repository and on the site
//! alike. A link that leads to no page, no heading and no file is an error here, not a surprise for a reader.
//! Invariant: `build` reads the tree and writes nothing; `write` touches nothing outside its folder.

mod body;
mod frame;
mod menu;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::documents::is_document;
use crate::finding::Finding;
use crate::tree::Tree;

use body::{Body, Link};
use menu::Menu;

/// Where the site begins.
const HOME: &str = "README.md";
/// Whose lists are the menu.
const INDEX: &str = "docs/index.md";
const STYLE: (&str, &str) = ("style.css", include_str!("site/style.css"));
const MARK: &str = "crates/server/page/mark.svg";
/// Files that a browser shows by itself; others are given as text.
const SHOWN: [&str; 4] = ["jpg", "png", "svg", "webp"];

/// What a file of the site holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    Text(String),
    /// A file of the repository, as it is.
    Copy(String),
}

/// Every file of the site by its path in it, or every link that leads nowhere.
pub fn build(tree: &Tree) -> Result<BTreeMap<String, Content>, Vec<Finding>> {
    let documents: BTreeMap<&str, Body> = tree
        .files
        .iter()
        .filter(|file| is_document(&file.path))
        .map(|file| (file.path.as_str(), Body::read(&file.text)))
        .collect();
    let places = Places { tree, documents: &documents };
    let menu = Menu::read(tree.text(INDEX).unwrap_or_default(), INDEX);

    let mut files = BTreeMap::new();
    let mut findings = Vec::new();
    let mut copies = BTreeSet::new();
    for (path, body) in &documents {
        let html = body.html(|link| match places.target(path, link) {
            Ok(Target { address, copy }) => {
                copies.extend(copy);
                address
            }
            Err((what, fix)) => {
                findings.push(Finding::error(path, link.line, what, fix));
                String::new()
            }
        });
        files.insert(page(path), Content::Text(frame::page(path, body, &html, &menu)));
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    files.extend(copies.into_iter().map(|from| (copied(&from), Content::Copy(from))));
    files.insert(STYLE.0.to_owned(), Content::Text(STYLE.1.to_owned()));
    if tree.exists(MARK) {
        files.insert(frame::MARK.to_owned(), Content::Copy(MARK.to_owned()));
    }
    Ok(files)
}

/// Replaces `folder` by the site.
pub fn write(root: &Path, folder: &Path, files: &BTreeMap<String, Content>) -> io::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    for (path, content) in files {
        let to = folder.join(path);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match content {
            Content::Text(text) => std::fs::write(&to, text)?,
            Content::Copy(from) => drop(std::fs::copy(root.join(from), &to)?),
        }
    }
    Ok(())
}

/// The page of a document.
fn page(document: &str) -> String {
    match document {
        HOME => "index.html".to_owned(),
        _ => format!("{}.html", document.trim_end_matches(".md")),
    }
}

/// Where a file of the repository stands on the site.
fn copied(path: &str) -> String {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    if SHOWN.contains(&ending) { path.to_owned() } else { format!("{path}.txt") }
}

/// The way from one file of the site to another.
fn relative(from: &str, to: &str) -> String {
    let folders = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (from, to) = (folders(from), folders(to));
    let most = from.len().min(to.len()) - 1;
    let shared = from.iter().zip(&to).take(most).take_while(|(left, right)| left == right).count();
    let up = std::iter::repeat_n("..", from.len() - 1 - shared);
    up.chain(to.iter().skip(shared).map(String::as_str)).collect::<Vec<_>>().join("/")
}

struct Places<'a> {
    tree: &'a Tree,
    documents: &'a BTreeMap<&'a str, Body<'a>>,
}

struct Target {
    address: String,
    /// A file that must be on the site for it.
    copy: Option<String>,
}

impl Places<'_> {
    fn target(&self, document: &str, link: &Link<'_>) -> Result<Target, (String, String)> {
        let elsewhere = |address: &str| Ok(Target { address: address.to_owned(), copy: None });
        let (path, heading) = link.to.split_once('#').map_or((link.to, None), |(path, heading)| (path, Some(heading)));
        if path.split('/').next().is_some_and(|start| start.contains(':')) {
            return elsewhere(link.to);
        }
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        let found = if path.is_empty() { Some(document.to_owned()) } else { crate::documents::resolve(folder, path) };
        let lost = || {
            (format!("the link to `{}` leads nowhere", link.to), "correct it, from the document's folder".to_owned())
        };
        let found = found.ok_or_else(lost)?;
        let here = page(document);
        if let Some((path, body)) = self.documents.get_key_value(found.as_str()) {
            if let Some(heading) = heading.filter(|heading| !body.has_heading(heading)) {
                let what = format!("`{path}` has no heading `#{heading}`");
                return Err((what, format!("link to one of: {}", body.headings().join(", "))));
            }
            let to = relative(&here, &page(path));
            return Ok(match heading {
                Some(heading) if *path == document => Target { address: format!("#{heading}"), copy: None },
                Some(heading) => Target { address: format!("{to}#{heading}"), copy: None },
                None => Target { address: to, copy: None },
            });
        }
        if self.tree.files.iter().any(|file| file.path == found) {
            return Ok(Target { address: relative(&here, &copied(&found)), copy: Some(found) });
        }
        if self.tree.exists(&found) {
            let fix = "link to a file in it: the site has no page for a folder";
            return Err((format!("`{}` is a folder", link.to), fix.to_owned()));
        }
        Err(lost())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: [(&str, &str); 6] = [
        ("README.md", "# Home\n\n[all](docs/index.md) ![it](docs/a.png)\n"),
        ("docs/index.md", "# Docs\n\n## First\n\n- [Tools](tools.md): what they are\n- [Decision](adr/0001-x.md)\n"),
        ("docs/tools.md", "# Tools\n\n## A heading, `code`\n\n[up](../README.md) [why](adr/0001-x.md#context)\n"),
        (
            "docs/adr/0001-x.md",
            "# X\n\n## Context\n\n[file](../../examples/t/TOOL.md) [there](https://example.com/a#b)\n",
        ),
        ("docs/a.png", ""),
        ("examples/t/TOOL.md", "x"),
    ];

    fn text<'a>(files: &'a BTreeMap<String, Content>, path: &str) -> &'a str {
        match &files[path] {
            Content::Text(text) => text,
            Content::Copy(from) => panic!("{path} is a copy of {from}"),
        }
    }

    #[test]
    fn every_document_is_a_page_and_links_lead_from_page_to_page() {
        let files = build(&Tree::of(&TREE)).unwrap();
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        let expected = [
            "docs/a.png",
            "docs/adr/0001-x.html",
            "docs/index.html",
            "docs/tools.html",
            "examples/t/TOOL.md.txt",
            "index.html",
            "style.css",
        ];
        assert_eq!(paths, expected);
        assert!(text(&files, "index.html").contains(r#"<img src="docs/a.png""#));
        let tools = text(&files, "docs/tools.html");
        assert!(
            tools.contains(r#"href="../index.html""#) && tools.contains(r#"href="adr/0001-x.html#context""#),
            "{tools}"
        );
        assert!(tools.contains(r#"<h2 id="a-heading-code">"#), "{tools}");
        assert!(tools.contains(r#"<a href="tools.html" aria-current="page">Tools</a>"#), "{tools}");
        let decision = text(&files, "docs/adr/0001-x.html");
        assert!(decision.contains(r#"href="../../examples/t/TOOL.md.txt""#), "{decision}");
        assert!(decision.contains(r#"href="https://example.com/a#b""#), "{decision}");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_line() {
        #[track_caller]
        fn check(document: &str, expected: &[&str]) {
            let tree = Tree::of(&[
                ("docs/index.md", "# I"),
                ("docs/a.md", document),
                ("docs/b.md", "# B\n\n## Here"),
                ("docs/c/d.txt", ""),
            ]);
            let found = build(&tree).err().unwrap_or_default();
            let found: Vec<String> = found.into_iter().map(|found| format!("{}: {}", found.line, found.what)).collect();
            assert_eq!(found, expected, "{document}");
        }
        check("# A\n\n[a](#a) [b](b.md#here) [c](c/d.txt)", &[]);
        check("# A\n\n[a](x.md)", &["3: the link to `x.md` leads nowhere"]);
        check("# A\n[b](b.md#there)\n[c](c)", &["2: `docs/b.md` has no heading `#there`", "3: `c` is a folder"]);
        check("# A\n[b](#there)", &["2: `docs/a.md` has no heading `#there`"]);
    }

    #[test]
    fn the_way_between_two_pages_is_relative() {
        assert_eq!(relative("index.html", "docs/a.html"), "docs/a.html");
        assert_eq!(relative("docs/a.html", "index.html"), "../index.html");
        assert_eq!(relative("docs/a.html", "docs/b.html"), "b.html");
        assert_eq!(relative("docs/errors/a.html", "docs/adr/b.html"), "../adr/b.html");
        assert_eq!(relative("docs/a.html", "docs/a.html"), "a.html");
    }
}

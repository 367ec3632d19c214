//! The page around a document: mark, menu, the page's own contents, and the way on.

use std::fmt::Write as _;

use pulldown_cmark::HeadingLevel;

use super::body::{Body, escape};
use super::menu::{Entry, Menu};
use super::{HOME, INDEX, STYLE, page as page_of, relative};

pub const MARK: &str = "mark.svg";
/// A page with fewer sections needs no contents of its own.
const SECTIONS_MIN: usize = 3;

pub fn page(document: &str, body: &Body<'_>, html: &str, menu: &Menu) -> String {
    let here = page_of(document);
    let to = |path: &str| relative(&here, path);
    let name = if document == HOME || body.title.is_empty() {
        "Toolgate".to_owned()
    } else {
        format!("{} · Toolgate", escape(&body.title))
    };
    let links = links(&here, document, menu);
    let contents = contents(body);
    let (style, mark, home) = (to(STYLE.0), to(MARK), to("index.html"));
    let on = way_on(&here, document, menu);
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<link rel="icon" href="{mark}" type="image/svg+xml">
<link rel="stylesheet" href="{style}">
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header><a href="{home}"><img src="{mark}" alt="" width="26" height="26"><strong>Toolgate</strong></a></header>
<details class="menu"><summary>Contents</summary><nav aria-label="All pages">{links}</nav></details>
<div class="columns">
<aside class="menu"><nav aria-label="All pages">{links}</nav></aside>
<main id="text">
{html}{on}</main>
{contents}</div>
</body>
</html>
"##
    )
}

fn links(here: &str, document: &str, menu: &Menu) -> String {
    let mut text = String::new();
    for group in &menu.groups {
        let _ = write!(text, "<h2>{}</h2><ul>", escape(&group.title));
        for entry in &group.entries {
            let current = if holds(&entry.document, document) { " aria-current=\"page\"" } else { "" };
            let address = relative(here, &page_of(&entry.document));
            let _ = write!(text, "<li><a href=\"{address}\"{current}>{}</a></li>", escape(&entry.title));
        }
        text.push_str("</ul>");
    }
    text
}

/// The entry of a page is its own, or that of its folder's list.
fn holds(entry: &str, document: &str) -> bool {
    let folder = entry.strip_suffix("index.md").filter(|_| entry != INDEX);
    entry == document || folder.is_some_and(|folder| document.starts_with(folder))
}

fn contents(body: &Body<'_>) -> String {
    if body.sections.len() < SECTIONS_MIN {
        return String::new();
    }
    let mut text = String::from("<aside class=\"contents\"><nav aria-label=\"On this page\"><h2>On this page</h2><ul>");
    for section in &body.sections {
        let class = if section.level == HeadingLevel::H3 { " class=\"below\"" } else { "" };
        let _ = write!(text, "<li{class}><a href=\"#{}\">{}</a></li>", section.id, escape(&section.text));
    }
    text.push_str("</ul></nav></aside>\n");
    text
}

fn way_on(here: &str, document: &str, menu: &Menu) -> String {
    let link = |entry: Option<&Entry>, word: &str| {
        entry.map_or_else(
            || "<span></span>".to_owned(),
            |entry| {
                let address = relative(here, &page_of(&entry.document));
                format!("<a href=\"{address}\"><small>{word}</small>{}</a>", escape(&entry.title))
            },
        )
    };
    match menu.beside(document) {
        (None, None) => String::new(),
        (before, after) => format!(
            "<nav class=\"on\" aria-label=\"Next pages\">{}{}</nav>\n",
            link(before, "Before"),
            link(after, "Next")
        ),
    }
}

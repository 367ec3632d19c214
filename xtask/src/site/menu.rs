//! The menu: the links in the lists of `docs/index.md`, under its headings.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

pub struct Menu {
    pub groups: Vec<Group>,
}

pub struct Group {
    pub title: String,
    pub entries: Vec<Entry>,
}

pub struct Entry {
    pub title: String,
    /// From the root of the repository.
    pub document: String,
}

impl Menu {
    pub fn read(index: &str, path: &str) -> Self {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut groups: Vec<Group> = Vec::new();
        let mut heading: Option<String> = None;
        let mut link: Option<Entry> = None;
        let mut lists = 0_usize;
        for event in Parser::new(index) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let title = heading.take().unwrap_or_default();
                    groups.push(Group { title, entries: Vec::new() });
                }
                Event::Start(Tag::List(_)) => lists += 1,
                Event::End(TagEnd::List(_)) => lists = lists.saturating_sub(1),
                Event::Start(Tag::Link { dest_url, .. }) if lists > 0 => {
                    let document = crate::documents::resolve(folder, dest_url.split('#').next().unwrap_or_default());
                    link = document.map(|document| Entry { title: String::new(), document });
                }
                Event::End(TagEnd::Link) => {
                    if let (Some(entry), Some(group)) = (link.take(), groups.last_mut()) {
                        group.entries.push(entry);
                    }
                }
                Event::Text(text) | Event::Code(text) => match (&mut heading, &mut link) {
                    (Some(title), _) => title.push_str(&text),
                    (None, Some(entry)) => entry.title.push_str(&text),
                    (None, None) => {}
                },
                _ => {}
            }
        }
        groups.retain(|group| !group.entries.is_empty());
        Self { groups }
    }

    /// The entries before and after a document.
    pub fn beside(&self, document: &str) -> (Option<&Entry>, Option<&Entry>) {
        let entries: Vec<&Entry> = self.groups.iter().flat_map(|group| &group.entries).collect();
        match entries.iter().position(|entry| entry.document == document) {
            Some(at) => (at.checked_sub(1).map(|before| entries[before]), entries.get(at + 1).copied()),
            None => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_menu_is_what_the_index_lists() {
        let menu = Menu::read(
            "# D\n\n[no](x.md)\n\n## Use\n\n- [A `b`](a.md): text\n- [C](../C.md#x)\n\n## Empty\n",
            "docs/index.md",
        );
        let shown: Vec<_> = menu.groups.iter().map(|group| (group.title.as_str(), group.entries.len())).collect();
        assert_eq!(shown, [("Use", 2)]);
        let entries = &menu.groups[0].entries;
        assert_eq!((entries[0].title.as_str(), entries[0].document.as_str()), ("A b", "docs/a.md"));
        assert_eq!(entries[1].document, "C.md");
        let (before, after) = menu.beside("docs/a.md");
        assert!(before.is_none() && after.is_some_and(|entry| entry.title == "C"));
    }
}

//! Words of a query and of a text: stop words out, endings off, and what else they may mean.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::words;

const STOP_WORDS: [&str; 60] = [
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "do", "does",
    "for", "from", "has", "have", "help", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "need", "of",
    "on", "or", "our", "please", "should", "some", "that", "the", "their", "them", "then", "there", "this", "to",
    "tool", "tools", "us", "use", "used", "want", "what", "which", "will", "with", "would", "you",
];

/// Words that people of this trade use for one another. Each line is a group; a word may be in several.
const SYNONYMS: [&[&str]; 34] = [
    &["notify", "notification", "alert", "message", "mail", "email", "inform", "ping", "remind"],
    &["send", "deliver", "dispatch", "post", "forward", "mail", "email"],
    &["search", "find", "lookup", "query", "discover", "locate"],
    &["list", "enumerate", "browse", "show", "index"],
    &["get", "fetch", "read", "retrieve", "load", "download", "open"],
    &["create", "add", "make", "new", "insert", "register"],
    &["update", "edit", "modify", "change", "set", "patch"],
    &["delete", "remove", "erase", "drop", "destroy", "purge"],
    &["write", "save", "store", "put", "append"],
    &["run", "execute", "invoke", "call", "start", "launch", "trigger"],
    &["calculate", "calculator", "compute", "math", "arithmetic", "sum", "calculation"],
    &["file", "document", "attachment", "doc"],
    &["folder", "directory", "path"],
    &["image", "picture", "photo", "drawing", "visual"],
    &["web", "internet", "online", "website", "page", "site"],
    &["http", "url", "api", "rest", "endpoint", "request"],
    &["database", "sql", "db", "table", "postgres", "sqlite"],
    &["chart", "plot", "graph", "diagram", "visualize", "visualization"],
    &["summary", "summarize", "digest", "brief", "overview"],
    &["translate", "translation", "language"],
    &["time", "date", "clock", "now", "day", "today"],
    &["schedule", "calendar", "appointment", "meeting", "event"],
    &["wait", "sleep", "delay", "pause"],
    &["ask", "question", "input", "form", "prompt", "survey"],
    &["approve", "approval", "confirm", "accept", "decide"],
    &["user", "person", "people", "account", "member", "customer"],
    &["agent", "assistant", "bot", "delegate"],
    &["task", "todo", "job", "ticket", "issue"],
    &["note", "memo", "comment", "remark"],
    &["code", "script", "python", "program", "snippet"],
    &["json", "data", "payload", "structure"],
    &["money", "price", "cost", "budget", "payment", "invoice", "bill"],
    &["secret", "key", "token", "credential", "password"],
    &["log", "history", "audit", "trace", "event"],
];

static MEANINGS: LazyLock<HashMap<String, Vec<&'static str>>> = LazyLock::new(|| {
    let stems: Vec<Vec<&'static str>> =
        SYNONYMS.iter().map(|group| group.iter().map(|word| stemmed(word)).collect()).collect();
    let mut meanings: HashMap<String, Vec<&'static str>> = HashMap::new();
    for group in &stems {
        for word in group {
            let others = meanings.entry((*word).to_owned()).or_default();
            others.extend(group.iter().filter(|other| *other != word).copied());
            others.sort_unstable();
            others.dedup();
        }
    }
    meanings
});

/// Stems of the table live as long as the program; there are a few hundred.
fn stemmed(word: &'static str) -> &'static str {
    match stem(word) {
        Cow::Borrowed(stem) => stem,
        Cow::Owned(stem) => Box::leak(stem.into_boxed_str()),
    }
}

/// Words of the table, as they are written.
pub(super) fn known_words() -> impl Iterator<Item = &'static str> {
    SYNONYMS.iter().flat_map(|group| group.iter().copied())
}

/// Stems that mean nearly the same as a stem.
pub(super) fn synonyms(stem: &str) -> impl Iterator<Item = &'static str> + use<> {
    MEANINGS.get(stem).into_iter().flatten().copied()
}

/// The words of a text that carry meaning, in lower case; all of them if none would be left.
pub(super) fn tokens(text: &str, limit: usize) -> Vec<String> {
    let all = words::split(text);
    let telling: Vec<String> =
        all.iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).take(limit).cloned().collect();
    if telling.is_empty() { all.into_iter().take(limit).collect() } else { telling }
}

/// An ending, the least length of a word that has it, and what takes its place. The first that fits.
const ENDINGS: [(&str, usize, &str); 10] = [
    ("ication", 10, "y"),
    ("ation", 9, ""),
    ("ating", 9, ""),
    ("ated", 8, ""),
    ("ator", 7, ""),
    ("ate", 7, ""),
    ("ing", 7, ""),
    ("ied", 6, "y"),
    ("ed", 6, ""),
    ("e", 5, ""),
];

/// Endings off, so that `notification`, `notifications` and `notifies` meet `notify`. Light on purpose: a wrong
/// stem joins words that mean different things, a missing one is caught by the search for typing errors.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    if word.len() < 4 || !word.is_ascii() {
        return Cow::Borrowed(word);
    }
    let singular = match word {
        _ if word.ends_with("ies") && word.len() > 4 => Cow::Owned(format!("{}y", &word[..word.len() - 3])),
        _ if ["sses", "shes", "ches", "xes", "zes"].iter().any(|end| word.ends_with(end)) => {
            Cow::Borrowed(&word[..word.len() - 2])
        }
        _ if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") && !word.ends_with("is") => {
            Cow::Borrowed(&word[..word.len() - 1])
        }
        _ => Cow::Borrowed(word),
    };
    let bare: &str = &singular;
    let ending = ENDINGS.iter().find(|(ending, least, _)| bare.len() >= *least && bare.ends_with(ending));
    let Some((ending, _, instead)) = ending else { return singular };
    let root = &bare[..bare.len() - ending.len()];
    // `running`, `planned`: the doubled letter was the ending's.
    let doubled = matches!(*ending, "ing" | "ed")
        && root.len() > 3
        && root.as_bytes().last() == root.as_bytes().iter().nth_back(1)
        && !root.ends_with("ll")
        && !root.ends_with("ss");
    let root = if doubled { &root[..root.len() - 1] } else { root };
    Cow::Owned(format!("{root}{instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_meet() {
        for group in [
            &["notify", "notification", "notifications", "notifies", "notified"][..],
            &["calculate", "calculator", "calculation", "calculating", "calculates", "calculated"],
            &["search", "searches", "searching", "searched"],
            &["file", "files"],
            &["run", "runs", "running"],
            &["translate", "translation", "translations", "translator"],
            &["email", "emails", "emailing"],
            &["query", "queries"],
        ] {
            let stems: Vec<_> = group.iter().map(|word| stem(word).into_owned()).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{group:?}: {stems:?}");
        }
        for word in ["status", "process", "analysis", "news", "é", "bus", "sing"] {
            assert!(!stem(word).is_empty());
        }
        assert_eq!(stem("status"), "status");
        assert_eq!(stem("analysis"), "analysis");
    }

    #[test]
    fn stop_words_go_unless_nothing_is_left() {
        assert_eq!(tokens("please send a notification to me", 9), ["send", "notification"]);
        assert_eq!(tokens("what is this", 9), ["what", "is", "this"]);
        assert_eq!(tokens("a b c d e", 2), ["b", "c"]);
    }

    #[test]
    fn synonyms_go_both_ways() {
        let means = |word: &str, other: &str| synonyms(&stem(word)).any(|synonym| synonym == stem(other));
        assert!(means("notification", "email") && means("email", "notify"));
        assert!(means("remove", "delete") && means("pictures", "image"));
        assert!(!means("delete", "create"));
    }
}

//! Descriptions are operating instructions for a model: when to use the tool, when not, which cheaper one first.

use toolgate_contracts::definition::Definition;

use crate::finding::Finding;

const WORDS_MIN: usize = 5;
const ADVERTISING: [&str; 33] = [
    "amazing",
    "award-winning",
    "beautiful",
    "best",
    "best-in-class",
    "blazing",
    "blazingly",
    "cutting-edge",
    "delightful",
    "easily",
    "effortless",
    "effortlessly",
    "empower",
    "empowers",
    "fantastic",
    "game-changing",
    "incredible",
    "industry-leading",
    "innovative",
    "leverage",
    "lightning-fast",
    "magical",
    "next-generation",
    "powerful",
    "revolutionary",
    "robust",
    "seamless",
    "seamlessly",
    "state-of-the-art",
    "stunning",
    "supercharge",
    "ultimate",
    "world-class",
];
/// Phrases that speak to a model over the head of the person who reads the card.
const STEERING: [&str; 10] = [
    "ignore previous",
    "ignore all previous",
    "ignore the above",
    "system prompt",
    "do not tell the user",
    "don't tell the user",
    "without telling the user",
    "before using any other tool",
    "always call this tool first",
    "do not mention this",
];
const WHEN: [&str; 8] = ["when ", "use this", "use it", "use for", "use to", "for questions", "whenever", "if the "];
const WHEN_NOT: [&str; 13] = [
    "do not use",
    "don't use",
    "not for",
    "instead",
    "rather than",
    "unless",
    "avoid",
    "never",
    "only when",
    "only for",
    "only if",
    "prefer ",
    " first",
];

/// A phrase in it that speaks to a model over the head of whoever reads it.
pub fn steering(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    STEERING.iter().copied().find(|phrase| lower.contains(phrase))
}

pub(super) fn check(definition: &Definition, findings: &mut Vec<Finding>) {
    let description = definition.description.trim();
    let lower = description.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '.' | ';' | ':' | '(' | ')' | '!'))
        .filter(|word| !word.is_empty())
        .collect();
    if words.len() < WORDS_MIN {
        let message = format!("the description has {} words; a model chooses tools by it", words.len());
        findings.push(Finding::warning(
            "description.short",
            "/description",
            message,
            "say what it does, when to use it, and when not",
        ));
        return;
    }
    let mut adverts: Vec<&str> = words.iter().copied().filter(|word| ADVERTISING.contains(word)).collect();
    adverts.dedup();
    if description.contains('!') {
        adverts.push("!");
    }
    if !adverts.is_empty() {
        let message = format!("the description advertises (`{}`) where it should instruct", adverts.join("`, `"));
        findings.push(Finding::warning(
            "description.marketing",
            "/description",
            message,
            "leave praise out; tell a model what to expect and what to do",
        ));
    }
    if let Some(phrase) = steering(description) {
        let message = format!("the description says `{phrase}`, which reads like an attempt to steer a model");
        findings.push(Finding::warning(
            "description.steering",
            "/description",
            message,
            "describe the tool; leave orders about other tools and people out",
        ));
    }
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    let fix = "for example: `Use this when … . Do not use it for … ; try … first, it is cheaper.`";
    match (says(&WHEN), says(&WHEN_NOT)) {
        (true, true) => {}
        (false, _) => findings.push(Finding::warning(
            "description.when",
            "/description",
            "the description does not say when to use the tool",
            fix,
        )),
        (true, false) => {
            findings.push(Finding::warning(
                "description.when-not",
                "/description",
                "the description does not say when not to use the tool, or what to try first",
                fix,
            ));
        }
    }
}

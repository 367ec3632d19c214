//! Ranked search over everything that can be called: tools, skills, agents, workflows, prompts.
//!
//! A query that is a name or an alias finds exactly that first. Then BM25F over the words of name, tags, title,
//! category and description, each query word also standing for its synonyms and, when nobody knows it, for
//! words that begin with it or are a typing error away. The index is immutable: a snapshot of the registry has
//! one, and searching allocates a few arrays of one number per entry, nothing per match.

mod terms;
mod typos;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::definition::Definition;
use toolgate_contracts::name::FoldedName;
use utoipa::ToSchema;

use self::terms::{stem, synonyms, tokens};
use self::typos::Typos;
use crate::words;

pub const LIMIT_DEFAULT: usize = 5;
/// A longer query is cut: nobody's intention is that long, and each word costs.
const QUERY_WORDS_MAX: usize = 24;
const QUERY_CHARS_MAX: usize = 1_000;
const PREFIX_WORDS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tool,
    Skill,
    Agent,
    Workflow,
    Prompt,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    pub kind: Kind,
    pub name: String,
    pub title: String,
    pub description: String,
    pub tags: Vec<String>,
    pub category: String,
    pub aliases: Vec<String>,
}

impl Entry {
    pub fn of_tool(definition: &Definition) -> Self {
        Self {
            kind: Kind::Tool,
            name: definition.name.to_string(),
            title: definition.title.clone().unwrap_or_default(),
            description: definition.description.clone(),
            tags: definition.tags.clone(),
            category: definition.effective_category().to_owned(),
            aliases: definition.aliases.iter().map(|alias| alias.name.to_string()).collect(),
        }
    }

    /// Seed 004's `CapabilityEntry`.
    pub fn capability(&self) -> Value {
        json!({"name": self.name, "description": self.description, "kind": self.kind, "tags": self.tags})
    }
}

/// One result. `id` is the position of the entry in what the index was built from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit<'a> {
    pub id: usize,
    pub entry: &'a Entry,
    pub score: f32,
}

/// How much a word counts by where it stands, and how much the length of the field matters there.
const FIELDS: [(f32, f32); 6] = [(5.0, 0.3), (4.0, 0.3), (4.0, 0.3), (3.0, 0.3), (2.0, 0.0), (1.0, 0.75)];
const SATURATION: f32 = 1.2;
const SYNONYM: f32 = 0.55;
const BEGINNING: f32 = 0.7;
/// A query word that an entry lacks costs half of its share.
const MISSING: f32 = 0.5;

pub struct Index {
    entries: Vec<Entry>,
    /// Folded names and aliases; names before aliases.
    exact: HashMap<String, Vec<u32>>,
    terms: HashMap<Box<str>, u32>,
    /// Terms in order, for words that begin a term.
    sorted: Vec<(Box<str>, u32)>,
    rarity: Vec<f32>,
    /// Postings of term `t` are `starts[t]..starts[t + 1]`.
    starts: Vec<u32>,
    postings: Vec<Posting>,
    typos: Typos,
    /// The place of each entry when sorted by name and kind, for ties.
    order: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Posting {
    entry: u32,
    /// Term frequency over all fields, weighted and saturated: between 0 and 1.
    impact: f32,
}

#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 entries and terms")]
fn id(index: usize) -> u32 {
    index as u32
}

#[expect(clippy::cast_precision_loss, reason = "counts of entries and words are far below 2^24")]
fn real(count: usize) -> f32 {
    count as f32
}

impl Index {
    pub fn build(entries: impl IntoIterator<Item = Entry>) -> Self {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let mut terms: HashMap<Box<str>, u32> = HashMap::new();
        let mut surfaces: HashMap<String, u32> = HashMap::new();
        let mut lengths = [0.0_f32; FIELDS.len()];
        // For each entry the words of each field, as terms.
        let fields: Vec<[Vec<u32>; FIELDS.len()]> = entries
            .iter()
            .map(|entry| {
                fields(entry).map(|words| {
                    let mut ids = Vec::with_capacity(words.len());
                    for word in words {
                        let stem = stem(&word).into_owned().into_boxed_str();
                        let next = id(terms.len());
                        let term = *terms.entry(stem).or_insert(next);
                        surfaces.entry(word).or_insert(term);
                        ids.push(term);
                    }
                    ids
                })
            })
            .collect();
        for field in &fields {
            for (length, words) in lengths.iter_mut().zip(field) {
                *length += real(words.len());
            }
        }
        let averages = lengths.map(|length| (length / real(entries.len().max(1))).max(1.0));
        let mut lists: Vec<Vec<Posting>> = vec![Vec::new(); terms.len()];
        let mut weights: HashMap<u32, f32> = HashMap::new();
        for (entry, field) in fields.iter().enumerate() {
            weights.clear();
            for ((words, (boost, flatness)), average) in field.iter().zip(FIELDS).zip(averages) {
                let norm = 1.0 - flatness + flatness * real(words.len()) / average;
                for term in words {
                    *weights.entry(*term).or_default() += boost / norm;
                }
            }
            for (term, weight) in &weights {
                lists[*term as usize].push(Posting { entry: id(entry), impact: weight / (SATURATION + weight) });
            }
        }
        let total = real(entries.len());
        let rarity =
            lists.iter().map(|list| (1.0 + (total - real(list.len()) + 0.5) / (real(list.len()) + 0.5)).ln()).collect();
        let mut starts = vec![0];
        let mut postings = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        for list in &mut lists {
            postings.append(list);
            starts.push(id(postings.len()));
        }
        let mut sorted: Vec<(Box<str>, u32)> =
            surfaces.iter().map(|(word, term)| (word.as_str().into(), *term)).collect();
        sorted.sort_unstable();
        let typos =
            Typos::build(surfaces.keys().map(String::as_str).chain(terms::known_words().map(|word| -> &str { word })));
        Self { exact: exact(&entries), order: order(&entries), entries, terms, sorted, rarity, starts, postings, typos }
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The best `limit` entries that `filter` lets through. Equal scores go by name.
    pub fn search(&self, query: &str, limit: usize, filter: impl Fn(usize, &Entry) -> bool) -> Vec<Hit<'_>> {
        let mut hits = Vec::new();
        let admitted = |index: u32| filter(index as usize, &self.entries[index as usize]);
        let hit = |index: u32, score: f32| Hit { id: index as usize, entry: &self.entries[index as usize], score };
        let named = self.exact.get(folded(query).as_str()).map(Vec::as_slice).unwrap_or_default();
        // Two names can fold alike (`l` and `I`); the one that is spelt so comes first.
        let (spelt, alike): (Vec<u32>, Vec<u32>) =
            named.iter().copied().partition(|index| self.entries[*index as usize].name == query);
        let found = spelt.into_iter().chain(alike).filter(|index| admitted(*index)).take(limit);
        hits.extend(found.map(|index| hit(index, f32::MAX)));
        if hits.len() >= limit {
            return hits;
        }
        let scores = self.scores(query);
        let candidates = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
        let mut heap: BinaryHeap<Candidate> = candidates
            .map(|(index, score)| Candidate { score: *score, order: self.order[index], entry: id(index) })
            .collect();
        while hits.len() < limit
            && let Some(Candidate { score, entry, .. }) = heap.pop()
        {
            if !named.contains(&entry) && admitted(entry) {
                hits.push(hit(entry, score));
            }
        }
        hits
    }

    fn scores(&self, query: &str) -> Vec<f32> {
        let count = self.entries.len();
        let mut scores = vec![0.0_f32; count];
        let mut matched = vec![0_u8; count];
        let mut best = vec![0.0_f32; count];
        let mut touched: Vec<u32> = Vec::new();
        let query: String = query.chars().take(QUERY_CHARS_MAX).collect();
        let words = tokens(&query, QUERY_WORDS_MAX);
        for word in &words {
            for (term, weight) in self.meanings(word) {
                let rarity = self.rarity[term as usize] * weight;
                for posting in self.postings(term) {
                    let score = rarity * posting.impact;
                    let slot = &mut best[posting.entry as usize];
                    if *slot == 0.0 {
                        touched.push(posting.entry);
                    }
                    *slot = slot.max(score);
                }
            }
            // A word counts once for an entry, by its best meaning there.
            for entry in touched.drain(..) {
                scores[entry as usize] += std::mem::take(&mut best[entry as usize]);
                matched[entry as usize] += 1;
            }
        }
        let wanted = real(words.len().max(1));
        for (score, matched) in scores.iter_mut().zip(matched) {
            *score *= MISSING + (1.0 - MISSING) * f32::from(matched) / wanted;
        }
        scores
    }

    fn postings(&self, term: u32) -> &[Posting] {
        let term = term as usize;
        &self.postings[self.starts[term] as usize..self.starts[term + 1] as usize]
    }

    /// Terms that a query word stands for, and how surely.
    fn meanings(&self, word: &str) -> Vec<(u32, f32)> {
        let mut found = self.known_meanings(word, 1.0);
        if found.is_empty() && word.chars().count() >= 3 {
            let from = self.sorted.partition_point(|(surface, _)| surface.as_ref() < word);
            let beginning =
                self.sorted[from..].iter().take_while(|(surface, _)| surface.starts_with(word)).take(PREFIX_WORDS_MAX);
            found.extend(beginning.map(|(_, term)| (*term, BEGINNING)));
        }
        if found.is_empty() {
            for (surface, weight) in self.typos.near(word) {
                found.extend(self.known_meanings(surface, weight));
            }
        }
        found
    }

    fn known_meanings(&self, word: &str, weight: f32) -> Vec<(u32, f32)> {
        let stem = stem(word);
        let own = self.terms.get(stem.as_ref()).map(|term| (*term, weight));
        let others = synonyms(&stem).filter_map(|other| self.terms.get(other).map(|term| (*term, weight * SYNONYM)));
        own.into_iter().chain(others).collect()
    }
}

struct Candidate {
    score: f32,
    order: u32,
    entry: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.order.cmp(&self.order))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// In the order of [`FIELDS`]: name, aliases, tags, title, category, description.
fn fields(entry: &Entry) -> [Vec<String>; FIELDS.len()] {
    let all = |texts: &[String]| texts.iter().flat_map(|text| name_words(text)).collect::<Vec<_>>();
    [
        name_words(&entry.name),
        all(&entry.aliases),
        all(&entry.tags),
        tokens(&entry.title, usize::MAX),
        tokens(&entry.category, usize::MAX),
        tokens(&entry.description, usize::MAX),
    ]
}

/// The words, and each two neighbours as one, so that `websearch` finds `web_search`.
fn name_words(name: &str) -> Vec<String> {
    let mut words = words::split(name);
    let pairs: Vec<String> = words.windows(2).map(<[String]>::concat).collect();
    words.extend(pairs);
    words
}

fn folded(text: &str) -> String {
    let joined: String = text.chars().filter(|c| !c.is_whitespace()).take(200).collect();
    FoldedName::of(&joined).as_str().to_owned()
}

fn exact(entries: &[Entry]) -> HashMap<String, Vec<u32>> {
    let mut exact: HashMap<String, Vec<u32>> = HashMap::new();
    let names = entries.iter().enumerate().map(|(index, entry)| (index, &entry.name));
    let aliases =
        entries.iter().enumerate().flat_map(|(index, entry)| entry.aliases.iter().map(move |alias| (index, alias)));
    for (index, name) in names.chain(aliases) {
        let list = exact.entry(folded(name)).or_default();
        if !list.contains(&id(index)) {
            list.push(id(index));
        }
    }
    exact
}

fn order(entries: &[Entry]) -> Vec<u32> {
    let mut sorted: Vec<usize> = (0..entries.len()).collect();
    sorted.sort_by(|left, right| {
        let key = |index: usize| (&entries[index].name, entries[index].kind);
        key(*left).cmp(&key(*right)).then_with(|| left.cmp(right))
    });
    let mut order = vec![0; entries.len()];
    for (place, index) in sorted.into_iter().enumerate() {
        order[index] = id(place);
    }
    order
}

#[cfg(test)]
mod tests;

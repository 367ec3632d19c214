//! Words that were meant: candidates share trigrams, and are kept when few letters differ.

use std::collections::HashMap;

/// Ways to read a word that nobody knows.
const READINGS_MAX: usize = 8;
const ONE_OFF: f32 = 0.6;
const TWO_OFF: f32 = 0.4;

#[derive(Default)]
pub(super) struct Typos {
    words: Vec<Box<str>>,
    trigrams: HashMap<[char; 3], Vec<u32>>,
}

impl Typos {
    pub(super) fn build<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut words: Vec<Box<str>> = words.map(Box::from).collect();
        words.sort_unstable();
        words.dedup();
        let mut trigrams: HashMap<[char; 3], Vec<u32>> = HashMap::new();
        for (index, word) in (0_u32..).zip(&words) {
            for trigram in trigrams_of(word) {
                let list = trigrams.entry(trigram).or_default();
                if list.last() != Some(&index) {
                    list.push(index);
                }
            }
        }
        Self { words, trigrams }
    }

    /// Known words within one letter (two for long words), nearest first, and how surely they were meant.
    pub(super) fn near(&self, word: &str) -> Vec<(&str, f32)> {
        let length = word.chars().count();
        let allowed = match length {
            4..=7 => 1,
            8..=40 => 2,
            _ => return Vec::new(),
        };
        let mine = trigrams_of(word);
        // Each differing letter spoils at most three trigrams (four when two letters are swapped).
        let shared_min = mine.len().saturating_sub(4 * allowed).max(1);
        let mut shared = vec![0_u8; self.words.len()];
        for trigram in &mine {
            for index in self.trigrams.get(trigram).into_iter().flatten() {
                shared[*index as usize] = shared[*index as usize].saturating_add(1);
            }
        }
        let candidates = shared
            .iter()
            .enumerate()
            .filter(|(_, count)| usize::from(**count) >= shared_min)
            .map(|(index, _)| &*self.words[index]);
        let mut near: Vec<(usize, &str)> = candidates
            .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
            .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
            .filter(|(distance, _)| *distance <= allowed)
            .collect();
        near.sort_unstable();
        near.truncate(READINGS_MAX);
        near.into_iter()
            .map(|(distance, candidate)| (candidate, if distance <= 1 { ONE_OFF } else { TWO_OFF }))
            .collect()
    }
}

fn trigrams_of(word: &str) -> Vec<[char; 3]> {
    let padded: Vec<char> = ['^', '^'].into_iter().chain(word.chars()).chain(['$']).collect();
    padded.windows(3).map(|window| [window[0], window[1], window[2]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found() {
        let typos = Typos::build(["notification", "calculator", "search", "email", "send", "sand"].into_iter());
        let near = |word: &str| typos.near(word).into_iter().map(|(word, _)| word).collect::<Vec<_>>();
        assert_eq!(near("notificaton"), ["notification"]);
        assert_eq!(near("calcualtor"), ["calculator"]);
        assert_eq!(near("serach"), ["search"]);
        assert_eq!(near("emial"), ["email"]);
        assert_eq!(near("sendd"), ["send"]);
        assert_eq!(near("xyzzy"), Vec::<&str>::new());
        assert_eq!(near("sen"), Vec::<&str>::new());
    }
}

//! Reads the text of the entries so that what is wrong with one is no matter of the others.
//!
//! The file is read again without an entry that failed, until all that is left can be read. The same strict reader reads
//! every time, so an entry means the same beside a wrong one as without it. What is no YAML has no entries to keep, and a
//! word that is no section refuses the whole file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::Spanned;
use toolgate_contracts::Entries;
use toolgate_contracts::entries::{ForTenants, WrongEntries, WrongEntry};

/// More wrong entries than this are a wrong file.
const WRONG_MAX: usize = 100;
const EXPECTED: &str = "`scripts`, `databases`, `yaml_files`, `upstreams`, `search`, `metrics`, `github` or `sandbox`";

/// Where in the file: a section, and the name of an entry in it.
type Place = (String, Option<String>);

/// How much of an entry that failed is still read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// For whom it is.
    Tenants,
    Nothing,
}

struct Failed {
    line: Option<u64>,
    why: String,
    left: Left,
}

/// Of an entry that failed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OnlyTenants {
    tenants: ForTenants,
}

/// One attempt.
struct Attempt<'a> {
    failed: &'a BTreeMap<Place, Failed>,
    /// Where it is: when it fails, that is what failed.
    at: &'a RefCell<Option<Place>>,
    /// For whom the entries are that had failed.
    tenants: &'a RefCell<BTreeMap<Place, ForTenants>>,
}

/// The entries of a text, and what of it cannot be read.
pub(super) fn read(text: &str) -> Result<Entries, String> {
    let mut failed: BTreeMap<Place, Failed> = BTreeMap::new();
    loop {
        let (at, tenants) = (RefCell::default(), RefCell::default());
        let attempt = Attempt { failed: &failed, at: &at, tenants: &tenants };
        let error = match serde_saphyr::with_deserializer_from_str(text, |file| attempt.deserialize(file)) {
            Ok(mut entries) => {
                let mut tenants: BTreeMap<Place, ForTenants> = tenants.into_inner();
                let wrong = failed.into_iter().map(|(place, Failed { line, why, left })| {
                    let tenants = match left {
                        Left::Tenants => tenants.remove(&place),
                        Left::Nothing => None,
                    };
                    let (section, name) = place;
                    WrongEntry { section, name, line, why, tenants }
                });
                let mut wrong: Vec<_> = wrong.collect();
                wrong.sort_by_key(|wrong| wrong.line);
                entries.wrong = WrongEntries::new(wrong);
                return Ok(entries);
            }
            Err(error) => error,
        };
        let at: Option<Place> = at.into_inner();
        let Some(place) = at else { return Err(error.to_string()) };
        let is_full = failed.len() == WRONG_MAX;
        match failed.get_mut(&place) {
            // It is no YAML from there on.
            Some(Failed { left: Left::Nothing, .. }) => return Err(error.to_string()),
            Some(again) => again.left = Left::Nothing,
            None if is_full => return Err(error.to_string()),
            None => {
                let line = error.location().map(|location| location.line());
                let why = error.without_snippet().to_string();
                failed.insert(place, Failed { line, why, left: Left::Tenants });
            }
        }
    }
}

impl Attempt<'_> {
    /// What a map has next, unless it had failed.
    fn value<'de, M: MapAccess<'de>, T: Deserialize<'de>>(
        &self,
        map: &mut M,
        place: Place,
    ) -> Result<Option<T>, M::Error> {
        *self.at.borrow_mut() = Some(place.clone());
        let value = match self.failed.get(&place).map(|failed| failed.left) {
            None => Some(map.next_value()?),
            Some(Left::Tenants) => {
                // A service has its tenants as an entry of a section has.
                let OnlyTenants { tenants } = map.next_value()?;
                self.tenants.borrow_mut().insert(place, tenants);
                None
            }
            Some(Left::Nothing) => {
                map.next_value::<IgnoredAny>()?;
                None
            }
        };
        *self.at.borrow_mut() = None;
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for Attempt<'_> {
    type Value = Entries;

    fn deserialize<D: Deserializer<'de>>(self, file: D) -> Result<Entries, D::Error> {
        file.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Attempt<'_> {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of sections")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut file: M) -> Result<Entries, M::Error> {
        let mut entries = Entries::default();
        while let Some(Spanned { value: section, referenced, .. }) = file.next_key::<Spanned<String>>()? {
            let whole = (section.clone(), None);
            match section.as_str() {
                "scripts" => entries.scripts = self.named(&mut file, section)?,
                "databases" => entries.databases = self.named(&mut file, section)?,
                "yaml_files" => entries.yaml_files = self.named(&mut file, section)?,
                "upstreams" => entries.upstreams = self.named(&mut file, section)?,
                "search" => entries.search = self.value(&mut file, whole)?.flatten(),
                "metrics" => entries.metrics = self.value(&mut file, whole)?.flatten(),
                "github" => entries.github = self.value(&mut file, whole)?.flatten(),
                "sandbox" => entries.sandbox = self.value(&mut file, whole)?.unwrap_or_default(),
                // Nobody knows which section was meant, and without some of them more is allowed than with them.
                _ => {
                    let section = section.escape_debug();
                    let told =
                        format!("line {}: there is no section `{section}`; expected {EXPECTED}", referenced.line());
                    return Err(M::Error::custom(told));
                }
            }
        }
        Ok(entries)
    }
}

impl Attempt<'_> {
    fn named<'de, M: MapAccess<'de>, T: Deserialize<'de>>(
        &self,
        file: &mut M,
        section: String,
    ) -> Result<BTreeMap<String, T>, M::Error> {
        let place = (section, None);
        if self.failed.contains_key(&place) {
            let _: Option<IgnoredAny> = self.value(file, place)?;
            return Ok(BTreeMap::new());
        }
        *self.at.borrow_mut() = Some(place.clone());
        let named = file.next_value_seed(Named { attempt: self, section: place.0, entry: std::marker::PhantomData })?;
        *self.at.borrow_mut() = None;
        Ok(named)
    }
}

/// A section of named entries.
struct Named<'a, T> {
    attempt: &'a Attempt<'a>,
    section: String,
    entry: std::marker::PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Named<'_, T> {
    type Value = BTreeMap<String, T>;

    fn deserialize<D: Deserializer<'de>>(self, section: D) -> Result<Self::Value, D::Error> {
        section.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Named<'_, T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of names to entries")
    }

    /// A section that is begun and has nothing in it yet.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut section: M) -> Result<Self::Value, M::Error> {
        let mut entries = BTreeMap::new();
        while let Some(name) = section.next_key::<String>()? {
            let place = (self.section.clone(), Some(name.clone()));
            if let Some(entry) = self.attempt.value(&mut section, place)? {
                entries.insert(name, entry);
            }
            *self.attempt.at.borrow_mut() = Some((self.section.clone(), None));
        }
        Ok(entries)
    }
}

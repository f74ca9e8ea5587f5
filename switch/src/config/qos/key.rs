//! Keys such as `3`, `3-4` or `default`, and maps from them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::HeadroomSize;

/// One class, an inclusive range of classes, or all classes without another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassKey {
    /// From, to (inclusive).
    Range(u8, u8),
    /// `default`.
    Default,
}

impl fmt::Display for ClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClassKey::Range(from, to) if from == to => write!(f, "{from}"),
            ClassKey::Range(from, to) => write!(f, "{from}-{to}"),
            ClassKey::Default => f.write_str("default"),
        }
    }
}

fn parse(text: &str) -> Option<ClassKey> {
    if text == "default" {
        return Some(ClassKey::Default);
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    (from <= to).then_some(ClassKey::Range(from, to))
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = ClassKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number such as 3, a range such as \"3-4\", or \"default\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ClassKey, E> {
        parse(text).ok_or_else(|| {
            E::custom(format!(
                "\"{text}\" is not a class: write a number (3), a range (3-4), or default"
            ))
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ClassKey, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ClassKey, E> {
        self.visit_str(&number.to_string())
    }
}

impl<'de> Deserialize<'de> for ClassKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClassKey, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

/// Values by class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct ClassMap(pub BTreeMap<ClassKey, u8>);

/// Spreads keyed values over classes 0 to N-1, or DSCPs, or what `of` names with its plural; `None` where no key applies.
/// Errors have the key.
pub(in crate::config) fn spread<V: Clone, const N: usize>(
    map: &BTreeMap<ClassKey, V>,
    (of, all): (&str, &str),
) -> Result<[Option<V>; N], String> {
    let mut classes: [Option<V>; N] = std::array::from_fn(|_| None);
    for (key, value) in map {
        let ClassKey::Range(from, to) = key else { continue };
        for class in *from..=*to {
            let Some(entry) = classes.get_mut(usize::from(class)) else {
                return Err(format!("{key}: {all} here go from 0 to {}", N - 1));
            };
            if entry.replace(value.clone()).is_some() {
                return Err(format!("{key}: {of} {class} is named twice"));
            }
        }
    }
    if let Some(default) = map.get(&ClassKey::Default) {
        for entry in &mut classes {
            entry.get_or_insert_with(|| default.clone());
        }
    }
    Ok(classes)
}

impl<'de> Deserialize<'de> for HeadroomSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HeadroomSize, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = HeadroomSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a size such as \"80 KB\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<HeadroomSize, E> {
                match text {
                    "auto" => Ok(HeadroomSize::Auto),
                    size => size.parse().map(HeadroomSize::Bytes).map_err(E::custom),
                }
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

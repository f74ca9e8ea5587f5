//! Ids of P4Runtime objects: the same for the same program, whatever the order of its declarations.
//!
//! An id is a byte for the kind of the object (P4Runtime specification 1.5, section 6.3) and 24 bits of a CRC of its
//! name (CRC-24 of RFC 4880), or the number that the program sets (`ids:`). Of several names of one kind with the same
//! CRC, later ones in the order of names take the next free numbers, so that ids depend on the set of names alone.

use std::collections::BTreeMap;

use crc::{CRC_24_OPENPGP, Crc};

use super::proto::p4::config::v1::p4_ids::Prefix;

const NAME: Crc<u32> = Crc::<u32>::new(&CRC_24_OPENPGP);
/// Bits of an id below the kind.
const NUMBER: u32 = 0x00ff_ffff;

/// The kind of an object, from its id.
pub fn prefix(id: u32) -> Option<Prefix> {
    Prefix::try_from((id >> 24) as i32).ok().filter(|prefix| *prefix != Prefix::Unspecified)
}

/// Ids for objects of one kind, by name; `pinned` has the numbers that the program sets.
pub fn assign<'a>(
    prefix: Prefix,
    names: impl IntoIterator<Item = &'a str>,
    pinned: &BTreeMap<String, u32>,
) -> BTreeMap<&'a str, u32> {
    let mut ids: BTreeMap<&str, u32> = names.into_iter().map(|name| (name, 0)).collect();
    let mut taken: std::collections::BTreeSet<u32> =
        ids.keys().filter_map(|name| pinned.get(*name)).copied().collect();
    for (name, id) in &mut ids {
        if let Some(number) = pinned.get(*name) {
            *id = (prefix as u32) << 24 | number;
            continue;
        }
        let mut number = NAME.checksum(name.as_bytes());
        // 0 means "none" in messages.
        while number == 0 || !taken.insert(number) {
            number = (number + 1) & NUMBER;
        }
        *id = (prefix as u32) << 24 | number;
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_the_names_and_not_from_their_order() {
        let none = BTreeMap::new();
        let one = assign(Prefix::Table, ["fib", "fdb", "acl"], &none);
        assert_eq!(one, assign(Prefix::Table, ["acl", "fib", "fdb"], &none));
        assert_eq!(
            one["fib"],
            assign(Prefix::Table, ["fib"], &none)["fib"],
            "others do not matter"
        );
        assert!(one.values().all(|id| prefix(*id) == Some(Prefix::Table)));
        assert_ne!(one["fib"] & NUMBER, 0);
    }

    #[test]
    fn names_with_the_same_checksum_get_different_ids() {
        let names: Vec<String> = (1..20_000u64)
            .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let ids = assign(Prefix::Action, names.iter().map(String::as_str), &BTreeMap::new());
        let crcs: std::collections::BTreeSet<u32> =
            names.iter().map(|name| NAME.checksum(name.as_bytes())).collect();
        assert!(crcs.len() < names.len(), "the test needs names that collide");
        let distinct: std::collections::BTreeSet<&u32> = ids.values().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn a_pinned_number_is_taken_from_nobody() {
        let free = assign(Prefix::Table, ["fib"], &BTreeMap::new())["fib"];
        let pinned = BTreeMap::from([("acl".to_owned(), free & NUMBER)]);
        let ids = assign(Prefix::Table, ["fib", "acl"], &pinned);
        assert_eq!(ids["acl"], free);
        assert_eq!(ids["fib"], free + 1, "the next free number");
    }
}

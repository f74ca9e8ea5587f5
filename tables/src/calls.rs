//! Actions with their data by slot, where many entries share one call.
//!
//! Ten thousand routes lead to sixty next hops: a record for each route would fill the cache with copies, and a lookup
//! costs what its last cache miss costs. So each different call is kept once, and a slot has the number of its record.
//! For a short record the indirection does not pay: it is stored by slot, as [`crate::flat::Records`] does.
//!
//! This is the engine's copy, made for lookups. What the control plane reads back is in [`crate::store`].

use hashbrown::HashTable;

use crate::flat::Records;
use crate::hash::{Seed, hash};

/// Records of at least this many words are shared: half a cache line.
const SHARED_WORDS: usize = 4;

/// The module's structure. A call is `[action, data...]`.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    records: Records,
    pool: Option<Pool>,
}

/// The assignment of slots to shared records.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Record by slot; [`NONE`] without an entry.
    numbers: Vec<u32>,
    /// Number of slots that refer to each record.
    users: Vec<u32>,
    /// Records without users.
    free: Vec<u32>,
    /// Records in use, by the hash of their words.
    index: HashTable<u32>,
}

const NONE: u32 = u32::MAX;

fn hash_of(call: &[u64]) -> u64 {
    hash(call, Seed::FIXED)
}

impl Calls {
    /// `may_share` is false where a record must be found by slot.
    pub(crate) fn new(data_words: usize, may_share: bool) -> Calls {
        let records = Records::new(data_words);
        let shares = may_share && records.stride() >= SHARED_WORDS;
        let pool = shares.then(Pool::default);
        Calls { records, pool }
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.pool.is_some()
    }

    /// The number of a slot's record.
    #[inline(always)]
    pub(crate) fn number(&self, slot: u32) -> u32 {
        match &self.pool {
            Some(pool) => pool.numbers[slot as usize],
            None => slot,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, slot: u32) -> (u32, &[u64]) {
        self.records.get(self.number(slot))
    }

    /// Sets the call of a slot: of a new entry, or in place of the old call.
    pub(crate) fn set(&mut self, slot: u32, call: &[u64]) {
        let Some(pool) = &mut self.pool else { return self.records.set(slot, call) };
        if pool.numbers.len() <= slot as usize {
            pool.numbers.resize(slot as usize + 1, NONE);
        }
        let known = pool.index.find(hash_of(call), |&number| self.records.call(number) == call);
        let number = match known {
            Some(&number) => number,
            None => {
                let number = pool.free.pop().unwrap_or(pool.users.len() as u32);
                pool.users.resize(pool.users.len().max(number as usize + 1), 0);
                self.records.set(number, call);
                let records = &self.records;
                let rehash = |&number: &u32| hash_of(records.call(number));
                pool.index.insert_unique(hash_of(call), number, rehash);
                number
            }
        };
        pool.users[number as usize] += 1;
        let old = std::mem::replace(&mut pool.numbers[slot as usize], number);
        self.release(old);
    }

    /// Removes the call of a slot.
    pub(crate) fn remove(&mut self, slot: u32) {
        let number = self.pool.as_mut().and_then(|pool| pool.numbers.get_mut(slot as usize));
        let old = number.map_or(NONE, |number| std::mem::replace(number, NONE));
        self.release(old);
    }

    fn release(&mut self, number: u32) {
        let Some(pool) = &mut self.pool else { return };
        let Some(users) = pool.users.get_mut(number as usize) else { return };
        *users -= 1;
        if *users == 0 {
            let hash = hash_of(self.records.call(number));
            if let Ok(found) = pool.index.find_entry(hash, |&other| other == number) {
                found.remove();
            }
            pool.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random changes against a map from slot to call.
    #[test]
    fn every_slot_has_its_own_call_and_equal_ones_are_kept_once() {
        let mut calls = Calls::new(3, true);
        let mut model = std::collections::BTreeMap::new();
        for step in 0..20_000u64 {
            let r = hash(&[step], Seed::FIXED);
            let slot = (r % 300) as u32;
            if r >> 10 & 3 == 0 {
                calls.remove(slot);
                model.remove(&slot);
            } else {
                let next = r >> 20 & 7;
                let call = [next & 1, next, next * 3, 9];
                calls.set(slot, &call);
                model.insert(slot, call);
            }
            if step % 64 == 0 {
                for (slot, call) in &model {
                    assert_eq!(calls.get(*slot), (call[0] as u32, &call[1..]));
                }
                let pool = calls.pool.as_ref().unwrap();
                let different: std::collections::BTreeSet<_> = model.values().collect();
                assert_eq!(pool.index.len(), different.len());
                assert_eq!(pool.users.iter().sum::<u32>() as usize, model.len());
                assert_eq!(pool.users.len(), pool.free.len() + different.len());
            }
        }
        (0..300).for_each(|slot| calls.remove(slot));
        assert!(calls.pool.as_ref().unwrap().index.is_empty());
        assert!(calls.pool.unwrap().users.len() <= 9);
    }

    #[test]
    fn short_records_are_kept_by_slot() {
        let mut calls = Calls::new(1, true);
        (0..10).for_each(|slot| calls.set(slot, &[2, 7]));
        assert!(!calls.is_shared());
        assert_eq!(calls.get(9), (2, &[7][..]));
        assert!(Calls::new(2, true).is_shared() && !Calls::new(2, false).is_shared());
    }
}

//! Wireyard tables: key bits in, entry out.
//!
//! # The problem
//!
//! A packet processor makes a few lookups per packet, each in some ten nanoseconds, while a control plane changes
//! entries, a learner in the data plane adds some, and a program is replaced. A table matches exactly, by longest
//! prefix, by mask, range or option; it may hold a million entries; a batch of changes to several tables must be
//! visible whole or not at all; and no reader may wait.
//!
//! # The simple design
//!
//! A table is a list of entries that is searched from end to end. That is the definition, and a property test compares
//! everything else with it (`tests/oracle.rs`). The order of preference is: the longest prefix in a table with an lpm
//! field and else only exact ones; the highest priority (higher wins) in a table with a ternary, range or optional
//! field; and among equals the entry inserted first. An entry is its matches and its priority: inserting the same again
//! is refused, modifying it keeps its age and its slot.
//!
//! # What is done for speed, and what it costs
//!
//! * **Keys are words** ([`KeyLayout`]). Engines compare `u64`s and have no fields. Cost: the caller that gathers the
//!   key must leave no stray bits in it.
//! * **One engine per kind of match** ([`MatchEngine`]): a hash table with key and data in one cache line, a multibit
//!   trie, a tuple space search. What each costs is at the head of its module. Hash table and trie are laid out so that
//!   generated code reads them without a call ([`raw`]).
//! * **Dense slots.** An entry keeps its [`Slot`] for life, so that counters, meters and last-hit times are arrays
//!   beside the table that no change of the table has to copy. Cost: slots are reused, so the arrays of a new entry's
//!   slot are reset first; freed slots are kept aside for a while, because a packet in flight may still count on the
//!   old entry.
//! * **Two copies** of every engine, left and right. Readers have one in an `Arc`; the writer changes
//!   the other, swaps, and repeats the changes on the first once its readers have left. Publishing is
//!   one pointer store, whatever the size of the table. Cost: memory for both copies and a third,
//!   compact one that the control plane reads; every change is made twice; the writer (never a reader)
//!   waits for the slowest reader, for some 50 ms at most, and then clones. A table that is never
//!   changed after its declaration has one copy.
//!
//! # Threads
//!
//! [`Tables`] is the handle of writers; a batch holds one lock from validation to publication, so writers are served
//! one by one. A [`Reader`] belongs to one worker: it pins the current [`Snapshot`] per burst (one load and a
//! comparison if nothing was published), and everything it reads until the next pin is of that version, in all tables.
//! A worker that goes to sleep releases its pin. A worker that learns ([`Reader::learn`]) uses the same writer, and its
//! entry is visible to it from its next pin on. Counters have a lane per worker, meters are shared.
//!
//! A copy of the tables elsewhere is kept up to date by the stream of their changes ([`follow`]).
//!
//! Nothing here reads a clock: `now` is an argument. Nothing that depends on a hash, an address or the
//! timing of threads reaches a caller: entries are read back oldest first, and which entry a key hits
//! depends on the entries alone.
//!
//! # Example
//!
//! ```
//! use wireyard_tables::time::Time;
//! use wireyard_tables::*;
//!
//! let dst = FieldSpec { name: "ipv4.dst".into(), bits: 32, kind: MatchKind::Lpm };
//! let route = ActionSpec { id: 1, name: "route".into(), data_words: 1 };
//! let mut fib = TableSpec::new("fib", vec![dst], 1024);
//! fib.actions.push(route);
//! let tables = Tables::new(&[fib], &[], Options::default())?;
//!
//! let to = |value, prefix_len, port| {
//!     Update::Insert(TableId(0), Entry::new(vec![Match::Lpm { value, prefix_len }], 1, vec![port]))
//! };
//! tables.batch(&[to(0x0a00_0000, 8, 1), to(0x0a01_0000, 16, 2)], Time::ZERO)?;
//!
//! let mut reader = tables.reader();
//! let fib = reader.pin().table(TableId(0)).unwrap();
//! assert_eq!(fib.lookup(&[0x0a01_0203]).unwrap().data, [2]);
//! assert_eq!(fib.lookup(&[0x0a02_0203]).unwrap().data, [1]);
//! assert!(fib.lookup(&[0x0b00_0000]).is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calls;
pub mod counter;
mod direct;
pub mod entry;
pub mod error;
mod exact;
mod field;
mod flat;
pub mod hash;
pub mod idle;
pub mod key;
mod log;
mod lpm;
pub mod meter;
pub mod prefetch;
pub mod raw;
mod replica;
mod scan;
pub mod selector;
mod shape;
pub mod size;
mod store;
mod tables;
mod ternary;
pub mod time;
mod view;

pub use entry::{
    ActionCall, ActionSpec, Aged, BatchOutcome, DirectMeter, Entry, GroupMember, Hit, Learned,
    MAX_CAPACITY, ProfileId, ProfileSpec, Released, Slot, TableId, TableSpec, Target, Update,
};
pub use error::{BatchError, BuildError, EntryError, FieldError, SpecError};
pub use key::{BitRange, FieldSpec, KeyLayout, Match, MatchKind, Pattern};
pub use shape::{MatchEngine, TableShape};
pub use tables::follow;
pub use tables::{CopiedEntries, EntriesPart, Options, Reader, Snapshot, Tables};
pub use view::TableView;

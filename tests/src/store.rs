//! The store of `run --state`, as another version of the switch would leave it.

use std::path::Path;

use redb::{Database, TableDefinition};

/// Gives the store another version of its format.
///
/// # Panics
/// It is no store.
pub fn set_format(file: &Path, format: u64) {
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let database = Database::open(file).expect("a store");
    let transaction = database.begin_write().expect("a transaction");
    transaction.open_table(meta).expect("a table").insert("format", format).expect("a record");
    transaction.commit().expect("a commit");
}

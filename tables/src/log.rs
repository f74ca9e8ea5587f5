//! The changes of a batch to one table, in a form both copies of the engine can replay.

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Insert,
    Modify,
    Remove,
    Default,
}

/// One change; its row and call are in the log's words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) slot: u32,
    /// Insert: sequence number of the entry (older wins among equal priorities). Remove from an lpm
    /// table: slot + 1 of the next shorter prefix that covers the removed one, 0 if there is none.
    pub(crate) extra: u64,
}

/// Changes in order. One flat buffer, so that a batch of a million entries is two allocations.
#[derive(Debug, Default)]
pub(crate) struct Log {
    ops: Vec<Op>,
    words: Vec<u64>,
    stride: usize,
}

impl Log {
    pub(crate) fn new(stride: usize) -> Log {
        Log { ops: Vec::new(), words: Vec::new(), stride }
    }

    pub(crate) fn push(&mut self, op: Op, row: &[u64], call: &[u64]) {
        debug_assert_eq!(row.len() + call.len(), self.stride);
        self.ops.push(op);
        self.words.extend_from_slice(row);
        self.words.extend_from_slice(call);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Op, &[u64])> {
        let stride = self.stride;
        self.ops.iter().enumerate().map(move |(i, op)| (op, &self.words[i * stride..][..stride]))
    }
}

impl crate::replica::Length for Log {
    fn len(&self) -> usize {
        self.ops.len()
    }
}

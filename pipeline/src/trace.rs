//! Packet traces: the processing of a packet, as events.
//!
//! An engine reports its steps to a [`TraceSink`], if there is one and it selects the packet. Events hold ids and
//! bytes; [`text`] and [`json`] turn them into readable output, with the program's names.

pub mod json;
pub mod names;
pub mod text;

use crate::exec::{Descriptor, Verdict};
use crate::ids::*;
use crate::ir::{Half, LValue, SourceSpan, Target};

/// An event of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pass starts.
    Start {
        /// Ingress or egress.
        half: Half,
        /// The packet's ingress port; in egress its egress port.
        port: u16,
        /// [`crate::exec::PacketPath`].
        path: u8,
        /// Now, nanoseconds.
        now_ns: u64,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// The parser enters a state.
    State(StateId),
    /// A header was read.
    Extract {
        /// The header instance.
        instance: InstanceId,
        /// Offset in the packet in bytes.
        at: u32,
        /// Its bytes.
        header: Vec<u8>,
    },
    /// A select was decided.
    Select {
        /// Values of the keys.
        keys: Vec<u128>,
        /// Its target.
        to: Target,
    },
    /// The parser failed.
    ParserError(ErrorId),
    /// The headers are located.
    Body {
        /// Offset of the body, bytes.
        at: u32,
        /// Its length.
        len: u32,
        /// Bytes behind the last trailer.
        slack: u32,
    },
    /// A checksum was verified.
    Checksum {
        /// The checksum.
        checksum: ChecksumId,
        /// Whether it was right.
        right: bool,
    },
    /// A CRC was verified.
    Crc {
        /// The CRC.
        crc: CrcId,
        /// Whether it was right.
        right: bool,
    },
    /// A table was looked up.
    Apply {
        /// The table.
        table: TableId,
        /// Values of the match keys.
        keys: Vec<u128>,
        /// The entry's slot; none on a miss.
        slot: Option<u32>,
        /// The colour of the entry's meter, if the table has meters: 0 green, 1 yellow, 2 red.
        color: Option<u8>,
    },
    /// An action runs.
    Action {
        /// The action.
        action: ActionId,
        /// Its arguments.
        args: Vec<u128>,
    },
    /// Something was assigned.
    Set {
        /// The place that is assigned.
        to: LValue,
        /// The value.
        value: u128,
        /// Headers valid at that time: a field of another header is unchanged.
        valid: u64,
        /// Its place in the program.
        span: Option<SourceSpan>,
    },
    /// The validity of headers changed.
    Headers {
        /// Valid ones, bit by instance.
        valid: u64,
    },
    /// A packet was counted.
    Count {
        /// The counter.
        counter: CounterId,
        /// At which index.
        index: u128,
    },
    /// A packet was measured.
    Metered {
        /// By which array.
        meter: MeterId,
        /// By which meter of it.
        index: u128,
        /// 0 green, 1 yellow, 2 red.
        color: u8,
    },
    /// A register entry was read.
    RegisterLoad {
        /// The register array.
        register: RegisterId,
        /// Index of the entry.
        index: u64,
        /// Its cells.
        cells: Vec<u128>,
    },
    /// A register cell was written.
    RegisterStore {
        /// The register array.
        register: RegisterId,
        /// Index of the entry.
        index: u64,
        /// Index of the cell.
        cell: u32,
        /// The value.
        value: u128,
    },
    /// A digest was sent.
    Digest {
        /// The digest.
        digest: DigestId,
        /// Its values.
        values: Vec<u128>,
    },
    /// An entry is to be learned.
    Learn {
        /// Into which table.
        table: TableId,
        /// Its action.
        action: ActionId,
        /// Arguments of the action.
        args: Vec<u128>,
    },
    /// A device extern was called.
    Extern {
        /// The extern.
        external: ExternId,
        /// Arguments.
        args: Vec<u128>,
        /// Result.
        result: u128,
    },
    /// A checksum was written.
    ChecksumWritten {
        /// The checksum.
        checksum: ChecksumId,
        /// Its new value.
        value: u16,
    },
    /// A CRC was written.
    CrcWritten {
        /// The CRC.
        crc: CrcId,
        /// Its new value.
        value: u128,
    },
    /// The pass ends.
    Verdict {
        /// The verdict on the packet.
        verdict: Verdict,
        /// Why, for a drop or punt.
        reason: ReasonId,
        /// The egress port.
        egress_port: u16,
        /// Or where its copies go.
        multicast_group: u16,
        /// Mirror sessions.
        clones: Vec<u16>,
        /// The emitted packet; empty when it is dropped.
        bytes: Vec<u8>,
    },
}

/// Which packets a sink can select at all, checked before [`TraceSink::wants`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Any packet.
    #[default]
    All,
    /// Packets received on this port.
    IngressPort(u16),
}

impl Scope {
    /// True if one of these packets may be selected. It is evaluated for every burst as long as a sink is installed: a
    /// few instructions for each packet, without a branch.
    pub fn has_any(self, packets: &[Descriptor]) -> bool {
        let Scope::IngressPort(port) = self else { return !packets.is_empty() };
        let any =
            |some: &[Descriptor]| some.iter().fold(false, |any, p| any | (p.ingress_port == port));
        let eights = packets.chunks_exact(8);
        let rest = any(eights.remainder());
        eights.fold(rest, |found, eight| found | any(eight))
    }
}

/// Receives events.
pub trait TraceSink {
    /// The scope; [`TraceSink::wants`] is called only for packets in it.
    fn scope(&self) -> Scope {
        Scope::All
    }

    /// Whether to report this pass of this packet. Called once, before the pass begins.
    fn wants(&mut self, packet: &Descriptor, bytes: &[u8], half: Half) -> bool;

    /// Something happened.
    fn event(&mut self, event: Event);

    /// Ingress or egress enters a block of its control. Blocks are those of the program that the engine runs
    /// ([`Engine::program`](crate::engine::Engine::program)). They are no events; their operations are.
    fn block(&mut self, _block: BlockId) {}

    /// The end of a selected pass; the packet is as the pass leaves it.
    fn end(&mut self, _packet: &Descriptor) {}
}

/// Keeps all events, for one packet or a few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// The events, in order.
    pub events: Vec<Event>,
}

impl TraceSink for Recorder {
    fn wants(&mut self, _: &Descriptor, _: &[u8], _: Half) -> bool {
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Passes on the packets of a scope that a predicate selects.
pub struct Filtered<S, P> {
    /// The receiver of the events.
    pub sink: S,
    /// Scope of the packets for which the predicate is called.
    pub scope: Scope,
    /// The predicate: descriptor, bytes, and whether this is ingress or egress.
    pub pick: P,
}

impl<S: TraceSink, P: FnMut(&Descriptor, &[u8], Half) -> bool> TraceSink for Filtered<S, P> {
    fn scope(&self) -> Scope {
        self.scope
    }

    fn wants(&mut self, packet: &Descriptor, bytes: &[u8], half: Half) -> bool {
        self.scope.has_any(std::slice::from_ref(packet))
            && (self.pick)(packet, bytes, half)
            && self.sink.wants(packet, bytes, half)
    }

    fn event(&mut self, event: Event) {
        self.sink.event(event);
    }

    fn block(&mut self, block: BlockId) {
        self.sink.block(block);
    }

    fn end(&mut self, packet: &Descriptor) {
        self.sink.end(packet);
    }
}

//! Packet traces: what happens to a packet, as events.
//!
//! An engine reports to a [`TraceSink`] what it does, if there is one and it wants the packet. Events hold
//! ids and bytes; [`text`] and [`json`] turn them into something to read, with the program at hand.

pub mod json;
pub mod names;
pub mod text;

use crate::exec::{Descriptor, Verdict};
use crate::ids::*;
use crate::ir::{Half, LValue, SourceSpan, Target};

/// Something that happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pass starts.
    Start {
        /// Ingress or egress.
        half: Half,
        /// The port it came in by, in egress the one it leaves by.
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
        /// Which.
        instance: InstanceId,
        /// Where in the packet, bytes.
        at: u32,
        /// Its bytes.
        header: Vec<u8>,
    },
    /// A select was decided.
    Select {
        /// Values of the keys.
        keys: Vec<u128>,
        /// Where it goes.
        to: Target,
    },
    /// The parser failed.
    ParserError(ErrorId),
    /// The headers are known.
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
        /// Which.
        checksum: ChecksumId,
        /// Whether it was right.
        right: bool,
    },
    /// A CRC was verified.
    Crc {
        /// Which.
        crc: CrcId,
        /// Whether it was right.
        right: bool,
    },
    /// A table was looked up.
    Apply {
        /// Which.
        table: TableId,
        /// Values of the match keys.
        keys: Vec<u128>,
        /// The entry's slot; none on a miss.
        slot: Option<u32>,
        /// What the entry's meter says, where the table has meters: 0 green, 1 yellow, 2 red.
        color: Option<u8>,
    },
    /// An action runs.
    Action {
        /// Which.
        action: ActionId,
        /// Its arguments.
        args: Vec<u128>,
    },
    /// Something was assigned.
    Set {
        /// What.
        to: LValue,
        /// The value.
        value: u128,
        /// Headers valid at that time: a field of another one did not change.
        valid: u64,
        /// Where the program says so.
        span: Option<SourceSpan>,
    },
    /// Headers came or went.
    Headers {
        /// Valid ones, bit by instance.
        valid: u64,
    },
    /// A packet was counted.
    Count {
        /// Where.
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
        /// Which array.
        register: RegisterId,
        /// Which entry.
        index: u64,
        /// Its cells.
        cells: Vec<u128>,
    },
    /// A register cell was written.
    RegisterStore {
        /// Which array.
        register: RegisterId,
        /// Which entry.
        index: u64,
        /// Which cell.
        cell: u32,
        /// The value.
        value: u128,
    },
    /// A digest was sent.
    Digest {
        /// Which.
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
        /// Which.
        external: ExternId,
        /// Arguments.
        args: Vec<u128>,
        /// Result.
        result: u128,
    },
    /// A checksum was written.
    ChecksumWritten {
        /// Which.
        checksum: ChecksumId,
        /// Its new value.
        value: u16,
    },
    /// A CRC was written.
    CrcWritten {
        /// Which.
        crc: CrcId,
        /// Its new value.
        value: u128,
    },
    /// The pass ends.
    Verdict {
        /// What becomes of the packet.
        verdict: Verdict,
        /// Why, for a drop or punt.
        reason: ReasonId,
        /// Where it goes.
        egress_port: u16,
        /// Or where its copies go.
        multicast_group: u16,
        /// Mirror sessions.
        clones: Vec<u16>,
        /// The packet as it leaves; empty when it drops.
        bytes: Vec<u8>,
    },
}

/// Which packets a sink can want at all, before it is asked about each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Any packet.
    #[default]
    All,
    /// Packets that came in by this port.
    IngressPort(u16),
}

impl Scope {
    /// True where one of these packets may be wanted. It is asked of every burst while a sink waits for a packet
    /// that does not come: a few instructions for each packet, without a branch.
    pub fn has_any(self, packets: &[Descriptor]) -> bool {
        let Scope::IngressPort(port) = self else { return !packets.is_empty() };
        let any =
            |some: &[Descriptor]| some.iter().fold(false, |any, p| any | (p.ingress_port == port));
        let eights = packets.chunks_exact(8);
        let rest = any(eights.remainder());
        eights.fold(rest, |found, eight| found | any(eight))
    }
}

/// Takes events.
pub trait TraceSink {
    /// Packets outside of it are not asked about.
    fn scope(&self) -> Scope {
        Scope::All
    }

    /// Whether to report this pass of this packet. Asked once, before anything happens.
    fn wants(&mut self, packet: &Descriptor, bytes: &[u8], half: Half) -> bool;

    /// Something happened.
    fn event(&mut self, event: Event);

    /// Ingress or egress enters a block of its control. Blocks are of the program as the engine runs it
    /// ([`Engine::program`](crate::engine::Engine::program)), and no events: what they do is.
    fn block(&mut self, _block: BlockId) {}

    /// A pass that was wanted is over; the packet is as it goes on.
    fn end(&mut self, _packet: &Descriptor) {}
}

/// Keeps everything, for one packet or a few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// What happened, in order.
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

/// Lets through the packets of a scope that a predicate picks.
pub struct Filtered<S, P> {
    /// Who gets the events.
    pub sink: S,
    /// Which packets the predicate is asked about.
    pub scope: Scope,
    /// Which packets: descriptor, bytes, and whether this is ingress or egress.
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

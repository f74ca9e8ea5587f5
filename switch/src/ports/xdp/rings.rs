//! Number of entries of a port's rings, by the share of packet memory that the port reserves.
//!
//! The kernel owns a chunk whose address is in a ring. A port reserves the chunks for its rings in packet memory before
//! it opens, so that it always has chunks to receive into, even if other ports use all the others. Most are for
//! receiving: while the process does not run, frames wait there. Sent frames are taken at once, so that ring is short.

use wireyard_pipeline::packet::{PacketMemory, Promise};

use crate::ports::sys::xsk::Xsk;
use crate::ports::{PortError, PortSpec};

/// Minimum number of entries of a ring: as many as a driver hands over at a time (its NAPI budget).
pub(crate) const RING_MIN: u32 = 64;
/// Default number of entries for receiving.
pub(crate) const RECEIVE_DEFAULT: u32 = 1024;
/// Maximum number of entries for receiving.
pub(crate) const RECEIVE_MAX: u32 = 1 << 16;
/// Maximum number of entries for sending.
const SEND_MAX: u32 = 512;
/// Chunks for the smallest rings.
pub(crate) const CHUNKS_MIN: u32 = 2 * RING_MIN;

/// The sizes of a port's rings, with its reservation.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) entries: Entries,
    _promise: Promise,
}

/// Maximum number of chunks that a port holds for receiving, and for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) receive: u32,
    pub(super) send: u32,
}

impl Entries {
    /// The division of `chunks` chunks: a quarter for sending, as a power of two.
    fn of(chunks: u32) -> Entries {
        let send = 1 << (chunks / 4).clamp(RING_MIN, SEND_MAX).ilog2();
        Entries { receive: chunks.saturating_sub(send).clamp(RING_MIN, RECEIVE_MAX), send }
    }
}

/// Chunks for the rings of a port with `receive` entries for receiving.
pub(crate) fn chunks_for(receive: u32) -> u32 {
    receive + SEND_MAX.min(1 << (receive / 3).max(RING_MIN).ilog2())
}

/// Entries for receiving of a port with `chunks` chunks for its rings.
pub(crate) fn entries_of(chunks: u32) -> u32 {
    Entries::of(chunks).receive
}

impl Rings {
    /// Reserves the rings of a port that is being opened.
    ///
    /// # Errors
    /// Packet memory has less than the minimum left.
    pub(super) fn on(mem: &PacketMemory, spec: &PortSpec) -> Result<Rings, PortError> {
        let wanted =
            spec.ring.map_or(mem.default_share().min(chunks_for(RECEIVE_DEFAULT)), chunks_for);
        let promise = mem.promise(CHUNKS_MIN, wanted).map_err(|refused| {
            let kibibytes =
                |chunks: u32| (u64::from(chunks) * u64::from(mem.config().chunk_bytes)) >> 10;
            let why = format!(
                "its rings need {CHUNKS_MIN} chunks of packet memory at least ({RING_MIN} to receive, {RING_MIN} to send); of {} chunks ({} KiB) {} \
                 are left, {} are kept for packets under way: give `run` more (--packet-memory {}KiB), or take raw:{}",
                refused.all,
                kibibytes(refused.all),
                refused.left,
                mem.kept(),
                kibibytes(refused.all + CHUNKS_MIN - refused.left),
                spec.target,
            );
            PortError::Unsupported { port: spec.to_string(), why }
        })?;
        Ok(Rings { entries: Entries::of(promise.chunks()), _promise: promise })
    }

    /// Number of further chunks that may be held for receiving.
    pub(super) fn receive_room(&self, xsk: &Xsk) -> u32 {
        self.entries.receive.saturating_sub(xsk.receiving())
    }

    /// Number of further chunks that may be held for sending.
    pub(super) fn send_room(&self, xsk: &Xsk) -> u32 {
        self.entries.send.saturating_sub(xsk.sending())
    }
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::packet::MemoryConfig;

    use super::*;

    #[test]
    fn receiving_has_most_and_sending_a_power_of_two() {
        let all = [128, 192, 1536, 5120, 100_000].map(Entries::of);
        let of = |receive, send| Entries { receive, send };
        assert_eq!(all, [of(64, 64), of(128, 64), of(1280, 256), of(4608, 512), of(1 << 16, 512)]);
        for receive in [64, 100, 1024, 1500, 4608, 1 << 16] {
            assert_eq!(Entries::of(chunks_for(receive)).receive, receive, "as it was asked for");
        }
    }

    #[test]
    fn a_port_that_cannot_get_its_least_is_refused_with_the_numbers() {
        let mem =
            PacketMemory::new(MemoryConfig { chunks: 512, ..MemoryConfig::default() }).unwrap();
        mem.divide(128, 130);
        let spec = PortSpec::parse("xdp:veth0").unwrap();
        let asks = PortSpec::parse("xdp:veth0,ring=64").unwrap();
        let all = [&spec, &asks].map(|spec| Rings::on(&mem, spec).unwrap());
        assert_eq!(all.each_ref().map(|rings| rings.entries.receive), [66, 64]);
        let why = Rings::on(&mem, &spec).map(|rings| rings.entries).unwrap_err().to_string();
        for part in [
            "128 chunks",
            "of 512 chunks (8192 KiB) 126 are left",
            "--packet-memory 8224KiB",
            "raw:veth0",
        ] {
            assert!(why.contains(part), "no `{part}` in {why}");
        }
        drop(all);
        assert!(Rings::on(&mem, &spec).is_ok(), "a port that is closed gives its share back");
    }
}

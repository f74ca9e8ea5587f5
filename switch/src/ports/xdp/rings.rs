//! How many entries a port's rings have: what packet memory promises the port.
//!
//! A chunk whose address is in a ring is the kernel's. A port holds at most as many for receiving as a ring has entries, and as
//! many for sending, and asks packet memory for them before it opens: so that it never stands there without a chunk to receive
//! into because other ports have them all.

use wireyard_pipeline::packet::{PacketMemory, Promise};

use super::held::Held;
use crate::ports::{PortError, PortSpec};

/// Entries of a ring: as many as a driver hands over at a time (its NAPI budget), at least.
pub(crate) const RING_MIN: u32 = 64;
/// Entries of a ring, at most.
pub(crate) const RING_MAX: u32 = 1024;
/// Chunks are held for receiving, and for sending.
pub(crate) const RINGS: u32 = 2;

/// The size of a port's rings.
#[derive(Debug)]
pub(super) struct Rings {
    entries: u32,
    _promise: Promise,
}

impl Rings {
    /// The share of a port that is being opened.
    ///
    /// # Errors
    /// Packet memory has not even the least left.
    pub(super) fn on(mem: &PacketMemory, spec: &PortSpec) -> Result<Rings, PortError> {
        let least = RINGS * RING_MIN;
        let mut promise = mem.promise(least, RINGS * RING_MAX).map_err(|refused| {
            let mebibytes = |chunks: u32| {
                (u64::from(chunks) * u64::from(mem.config().chunk_bytes)).div_ceil(1 << 20)
            };
            let why = format!(
                "its rings need {least} chunks of packet memory at least ({RING_MIN} to receive, {RING_MIN} to send); of {} chunks ({} MiB) {} \
                 are left, {} are kept for packets under way: give `run` more (--packet-memory {}MiB), or take raw:{}",
                refused.all,
                mebibytes(refused.all),
                refused.left,
                mem.kept(),
                mebibytes(refused.all + least - refused.left),
                spec.target,
            );
            PortError::Unsupported { port: spec.to_string(), why }
        })?;
        let entries = entries_of(promise.chunks());
        promise.keep(RINGS * entries);
        Ok(Rings { entries, _promise: promise })
    }

    /// Entries of each ring.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// How many more chunks may be held, for receiving or for sending.
    pub(super) fn room(&self, held: &Held) -> u32 {
        self.entries.saturating_sub(held.count())
    }
}

/// Entries of a ring of a port with so many chunks: a power of two, as the kernel wants it.
fn entries_of(chunks: u32) -> u32 {
    1 << (chunks / RINGS).clamp(RING_MIN, RING_MAX).ilog2()
}

/// Entries of the rings of each of so many ports which have `chunks` together, or more where that is less than each needs.
pub(crate) fn entries_for(ports: u32, chunks: u32) -> u32 {
    entries_of(chunks / ports.max(1))
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::packet::MemoryConfig;

    use super::*;

    #[test]
    fn rings_shrink_with_the_number_of_ports_and_never_below_their_least() {
        let all = [1, 2, 4, 8, 9, 64, 1000].map(|ports| entries_for(ports, 8192));
        assert_eq!(all, [1024, 1024, 1024, 512, 256, 64, 64]);
    }

    #[test]
    fn a_port_that_cannot_get_its_least_is_refused_with_the_numbers() {
        let mem =
            PacketMemory::new(MemoryConfig { chunks: 512, ..MemoryConfig::default() }).unwrap();
        mem.divide(128, 2);
        let spec = PortSpec::parse("xdp:veth0").unwrap();
        let all = [(); 3].map(|()| Rings::on(&mem, &spec).unwrap());
        assert_eq!(
            all.each_ref().map(Rings::entries),
            [64; 3],
            "192 chunks are one power of two and half of it"
        );
        let why = Rings::on(&mem, &spec).unwrap_err().to_string();
        for part in
            ["128 chunks", "of 512 chunks (8 MiB) 0 are left", "--packet-memory 10MiB", "raw:veth0"]
        {
            assert!(why.contains(part), "no `{part}` in {why}");
        }
        drop(all);
        assert!(Rings::on(&mem, &spec).is_ok(), "a port that is closed gives its share back");
    }
}

//! The counters of a port.

/// The counts of a port. All start at 0 when the port is opened.
///
/// `rx_frames` counts the frames handed to the caller. Frames that never reached the caller are counted separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PortStats {
    /// Frames handed to the caller.
    pub rx_frames: u64,
    /// Bytes of them.
    pub rx_bytes: u64,
    /// Frames that the kernel dropped before the port could read them (its queue was full).
    pub rx_kernel_drops: u64,
    /// Frames longer than a chunk of packet memory: dropped.
    pub rx_too_long: u64,
    /// Frames of several segments, which the sender left to its network card to cut (GSO), and which could not be cut
    /// here: dropped.
    pub rx_gso: u64,
    /// Frames of several segments that were cut here; the segments are counted in `rx_frames`.
    pub rx_segmented: u64,
    /// Frames that could not be read for another reason: dropped.
    pub rx_errors: u64,
    /// Frames that arrived while the port was shut down: dropped.
    pub rx_down: u64,
    /// Times that receiving stopped for lack of a free chunk; this alone loses no frame.
    pub rx_no_memory: u64,
    /// Frames whose checksum the port finished.
    pub rx_checksums_finished: u64,
    /// Frames handed to the medium.
    pub tx_frames: u64,
    /// Bytes of them.
    pub tx_bytes: u64,
    /// Times that the medium had no room; the frames stayed with the caller.
    pub tx_full: u64,
    /// Frames given up because the link was down or the interface gone.
    pub tx_down: u64,
    /// Frames given up because they exceed the interface's MTU.
    pub tx_too_long: u64,
    /// Frames given up for another reason.
    pub tx_errors: u64,
}

impl PortStats {
    /// All counters with their names, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 16] {
        [
            ("rx_frames", self.rx_frames),
            ("rx_bytes", self.rx_bytes),
            ("rx_kernel_drops", self.rx_kernel_drops),
            ("rx_too_long", self.rx_too_long),
            ("rx_gso", self.rx_gso),
            ("rx_segmented", self.rx_segmented),
            ("rx_errors", self.rx_errors),
            ("rx_down", self.rx_down),
            ("rx_no_memory", self.rx_no_memory),
            ("rx_checksums_finished", self.rx_checksums_finished),
            ("tx_frames", self.tx_frames),
            ("tx_bytes", self.tx_bytes),
            ("tx_full", self.tx_full),
            ("tx_down", self.tx_down),
            ("tx_too_long", self.tx_too_long),
            ("tx_errors", self.tx_errors),
        ]
    }

    /// Adds the counts of another queue of the same link.
    pub fn add(&mut self, other: &PortStats) {
        let PortStats {
            rx_frames,
            rx_bytes,
            rx_kernel_drops,
            rx_too_long,
            rx_gso,
            rx_segmented,
            rx_errors,
            rx_down,
            rx_no_memory,
            rx_checksums_finished,
            tx_frames,
            tx_bytes,
            tx_full,
            tx_down,
            tx_too_long,
            tx_errors,
        } = self;
        *rx_frames += other.rx_frames;
        *rx_bytes += other.rx_bytes;
        *rx_kernel_drops += other.rx_kernel_drops;
        *rx_too_long += other.rx_too_long;
        *rx_gso += other.rx_gso;
        *rx_segmented += other.rx_segmented;
        *rx_errors += other.rx_errors;
        *rx_down += other.rx_down;
        *rx_no_memory += other.rx_no_memory;
        *rx_checksums_finished += other.rx_checksums_finished;
        *tx_frames += other.tx_frames;
        *tx_bytes += other.tx_bytes;
        *tx_full += other.tx_full;
        *tx_down += other.tx_down;
        *tx_too_long += other.tx_too_long;
        *tx_errors += other.tx_errors;
    }

    /// Frames that this port gave up after it had taken them from its caller.
    pub fn tx_dropped(&self) -> u64 {
        self.tx_down + self.tx_too_long + self.tx_errors
    }
}

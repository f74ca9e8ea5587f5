//! Common parts of sending on interface ports: the meaning of a failed send, and sending frame by frame.
//!
//! Not here: how a kind of port hands frames to the kernel; that is a closure, or a batch in its own module.

use std::io;

use wireyard_pipeline::packet::PacketMemory;

use super::watch::Watch;
use super::{PortError, PortStats, TxDone, TxFrame};

/// The meaning of a failed send for the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TxVerdict {
    /// Interrupted: try again at once.
    Again,
    /// No room: the frame stays with the caller.
    Full,
    /// The link is down or the interface gone.
    Down,
    /// Longer than the MTU.
    TooLong,
    /// Any other error: this frame cannot be sent.
    Refused,
}

pub(super) fn tx_verdict(error: &io::Error) -> TxVerdict {
    match error.raw_os_error() {
        Some(libc::EINTR) => TxVerdict::Again,
        Some(libc::EAGAIN | libc::ENOBUFS) => TxVerdict::Full,
        // The last three: a TAP that is down or without its device.
        Some(
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EIO | libc::EBADFD | libc::EFAULT,
        ) => TxVerdict::Down,
        Some(libc::EMSGSIZE) => TxVerdict::TooLong,
        _ => TxVerdict::Refused,
    }
}

/// Gives up all frames because the link is down.
pub(super) fn drop_all(
    mem: &mut PacketMemory,
    frames: &mut Vec<TxFrame>,
    stats: &mut PortStats,
) -> TxDone {
    let dropped = frames.len();
    stats.tx_down += dropped as u64;
    frames.drain(..).for_each(|frame| mem.free(frame.buf));
    TxDone { sent: 0, dropped }
}

/// The state of a port that a send needs.
pub(super) struct Sending<'a> {
    pub(super) watch: &'a mut Watch,
    /// Index of the interface that the port was opened on.
    pub(super) index: u32,
    pub(super) stats: &'a mut PortStats,
}

impl Sending<'_> {
    /// Sends frame after frame with `send` until there is no room or one is given up, as [`super::Port::tx_burst`]
    /// requires.
    pub(super) fn one_by_one(
        self,
        mem: &mut PacketMemory,
        frames: &mut Vec<TxFrame>,
        mut send: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<TxDone, PortError> {
        let Sending { watch, index, stats } = self;
        let mut done = TxDone::default();
        let mut failure = None;
        while let Some(frame) = frames.get(done.sent) {
            let Err(error) = send(mem.frame(&frame.buf, frame.data_off, frame.len)) else {
                stats.tx_frames += 1;
                stats.tx_bytes += u64::from(frame.len);
                done.sent += 1;
                watch.works();
                continue;
            };
            match tx_verdict(&error) {
                TxVerdict::Again => continue,
                TxVerdict::Full => stats.tx_full += 1,
                // The next call fails in the same way, and can report it.
                TxVerdict::Down if done.sent > 0 => {}
                TxVerdict::Down => {
                    failure = watch.lost(index);
                    done.dropped = frames.len();
                    stats.tx_down += done.dropped as u64;
                }
                TxVerdict::TooLong => {
                    stats.tx_too_long += 1;
                    done.dropped = 1;
                }
                TxVerdict::Refused => {
                    stats.tx_errors += 1;
                    done.dropped = 1;
                }
            }
            break;
        }
        frames.drain(..done.sent + done.dropped).for_each(|frame| mem.free(frame.buf));
        failure.map_or(Ok(done), Err)
    }
}

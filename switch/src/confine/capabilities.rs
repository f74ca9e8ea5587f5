//! The capabilities that a running switch keeps (capabilities(7)).
//!
//! Ports are opened while it runs, so those of ports stay, permitted and effective. The bounding and the inheritable
//! set are emptied too, so that a program started from it would get none.

use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};

/// The capabilities of live ports: packet sockets, interfaces and TAPs, programs and maps of AF_XDP, locked packet
/// memory. Without CAP_PERFMON the kernel loads no program that traces it.
const OF_PORTS: [Capability; 4] = [
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_BPF,
    Capability::CAP_IPC_LOCK,
];

/// Drops all others but `more`, in the calling thread and those that it starts later.
///
/// # Errors
///
/// The system refuses.
pub(super) fn keep(more: &[Capability]) -> Result<(), CapsError> {
    let kept: CapsHashSet = OF_PORTS.iter().chain(more).copied().collect();
    let permitted = caps::read(None, CapSet::Permitted)?;
    // Without CAP_SETPCAP the bounding set stays: with no_new_privs it grants nothing.
    if permitted.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::read(None, CapSet::Bounding)? {
            if !kept.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability)?;
            }
        }
    }
    let kept: CapsHashSet = kept.intersection(&permitted).copied().collect();
    caps::clear(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::clear(None, CapSet::Inheritable)
}

//! The files that a running switch can open (landlock(7)), and the refusal of TCP connections and of signals to others.
//!
//! All that the kernel supports of one version of Landlock is used, from the first (Linux 5.13) on; TCP since 6.7, ioctl
//! on devices since 6.10, signals since 6.12. Files that are already open stay open. Unix sockets are not confined: a
//! claim of an interface asks its holder, whoever that is.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// Paths that every switch reads: interfaces and sockets of the kernel, libraries that are loaded late, users and
/// groups.
const SYSTEM: [&str; 10] = [
    "/proc",
    "/sys",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/etc/ld.so.cache",
    "/etc/group",
    "/etc/passwd",
    "/etc/nsswitch.conf",
    "/dev/urandom",
];
/// Devices that are read and written: TAPs are made by ioctl.
const DEVICES: [&str; 2] = ["/dev/net/tun", "/dev/null"];
/// The newest version of the interface that is used.
const KNOWN: ABI = ABI::V6;

/// Extent of the confinement of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All rules of that version.
    Everything,
    /// The part that this kernel supports.
    Partly,
    /// Nothing: the kernel has no Landlock.
    Nothing,
}

/// Restricts the calling thread, and those that it starts later, to files beneath these folders.
///
/// # Errors
/// The system refuses.
pub(super) fn restrict(read: &[PathBuf], write: &[PathBuf]) -> Result<Extent, RulesetError> {
    let all = AccessFs::from_all(KNOWN);
    let reads: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let special = AccessFs::Execute
        | AccessFs::IoctlDev
        | AccessFs::MakeBlock
        | AccessFs::MakeChar
        | AccessFs::MakeFifo
        | AccessFs::MakeSym;
    let status = Ruleset::default()
        .handle_access(all)
        .and_then(|rules| rules.handle_access(AccessNet::ConnectTcp))
        .and_then(|rules| rules.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(SYSTEM, reads)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(read, reads)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(write, all & !special)))
        .and_then(|rules| {
            let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
            rules.add_rules(path_beneath_rules(DEVICES, access))
        })
        .and_then(|rules| rules.restrict_self())?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Extent::Everything,
        RulesetStatus::PartiallyEnforced => Extent::Partly,
        RulesetStatus::NotEnforced => Extent::Nothing,
    })
}

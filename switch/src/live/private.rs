//! The network namespace of a run on its own interfaces, which ends with the process.

use std::io;

use crate::ports::sys::netns;

/// The system allows neither a network namespace nor a user namespace around it.
#[derive(Debug, thiserror::Error)]
#[error(
    "no private network namespace: {source}. {what} needs root, or user namespaces for everybody (sysctl \
     kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, and on Ubuntu \
     kernel.apparmor_restrict_unprivileged_userns=0)"
)]
pub struct NoNamespace {
    /// The command that needs it.
    what: &'static str,
    source: io::Error,
}

/// Moves the process into an empty network namespace for good; `what` needs it, for the message.
///
/// # Errors
/// The system allows neither that nor a user namespace.
pub fn enter(what: &'static str) -> Result<(), NoNamespace> {
    netns::leave_for_private_network().map_err(|source| NoNamespace { what, source })?;
    // If this is refused, the interfaces' own neighbour discovery is also on the cables.
    netns::silence_ipv6();
    Ok(())
}

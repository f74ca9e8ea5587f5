//! Where a run on interfaces of its own happens: a network namespace that ends with the process.

use crate::ports::sys::netns;

/// Moves the process into an empty network namespace for good; `what` is who needs it, for the message.
///
/// # Errors
/// The system allows neither that nor a user namespace, in words that say what would.
pub fn enter(what: &str) -> Result<(), String> {
    netns::leave_for_private_network().map_err(|error| {
        format!(
            "no private network namespace: {error}. {what} needs root, or user namespaces for everybody \
             (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, and on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    })?;
    // Where this is refused, the interfaces' own neighbour discovery is on the cables too.
    netns::silence_ipv6();
    Ok(())
}

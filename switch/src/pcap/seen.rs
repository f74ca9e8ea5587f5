//! Port and direction of a record in a capture of Wireyard, from its interface: received, sent, or dropped.

/// The direction of a record at its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Received.
    In,
    /// It left.
    Out,
    /// It was dropped.
    Dropped,
}

/// Where a switch recorded a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The port.
    pub port: u16,
    /// The direction.
    pub way: Way,
    /// The reason of the drop, with details.
    pub reason: Option<&'a str>,
}

impl Way {
    const ALL: [Way; 3] = [Way::In, Way::Out, Way::Dropped];

    /// Its name, which is the last word of the interface's name.
    pub fn name(self) -> &'static str {
        match self {
            Way::In => "in",
            Way::Out => "out",
            Way::Dropped => "dropped",
        }
    }
}

/// The name of an interface for a port and a direction.
pub fn interface(port: u16, name: &str, way: Way) -> String {
    format!("port {port} {name} {}", way.name())
}

impl<'a> Seen<'a> {
    /// From the name of an interface and the comment of a record; `None` in the capture of another program.
    pub fn read(interface: &str, comment: Option<&'a str>) -> Option<Seen<'a>> {
        let (port, rest) = interface.strip_prefix("port ")?.split_once(' ')?;
        let (_, last) = rest.rsplit_once(' ')?;
        let way = Way::ALL.into_iter().find(|way| way.name() == last)?;
        let reason = comment.filter(|_| way == Way::Dropped);
        let reason = reason.map(|text| text.strip_prefix("dropped: ").unwrap_or(text));
        Some(Seen { port: port.parse().ok()?, way, reason })
    }

    /// As text: `port 1 in`, `port 2 dropped: no_decision`.
    pub fn text(&self) -> String {
        let reason = self.reason.map_or(String::new(), |reason| format!(": {reason}"));
        format!("port {} {}{reason}", self.port, self.way.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_are_read_as_they_are_written() {
        for way in Way::ALL {
            let name = interface(7, "raw:veth 1", way);
            let seen = Seen::read(&name, Some("dropped: no_decision"));
            let reason = (way == Way::Dropped).then_some("no_decision");
            assert_eq!(seen, Some(Seen { port: 7, way, reason }));
        }
        for other in ["eth0", "port 1", "port x raw:a in", "port 1 raw:a inside", "port 1 in"] {
            assert_eq!(Seen::read(other, None), None, "{other}");
        }
    }
}

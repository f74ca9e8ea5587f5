//! Packet spraying: the UDP source port of each packet, by which switches choose among equal paths.
//!
//! A path has `ports` entropy values, beginning with the port of its queue pair. All of them are used before one is
//! used again, each time in another order, so that flows do not share the same links for long.

/// Custom of RoCEv2: source ports from 0xc000 on.
const FIRST: u16 = 0xc000;
const PORTS: u16 = 0x3fff;

/// The ports of one path.
#[derive(Debug)]
pub(super) struct Spray {
    first: u16,
    mask: u16,
    sent: u32,
}

impl Spray {
    /// A spray over `ports` ports, a power of two; `None` for fewer than two.
    pub(super) fn new(ports: u16, first: u16) -> Option<Spray> {
        let mask = ports.checked_next_power_of_two()?.checked_sub(1)?;
        (mask > 0).then_some(Spray { first, mask: mask & PORTS, sent: 0 })
    }

    /// The port of the next packet.
    pub(super) fn next_port(&mut self) -> u16 {
        let round = self.sent / (u32::from(self.mask) + 1);
        // Fibonacci hashing of the round (Knuth, volume 3, 6.4).
        let order = round.wrapping_mul(0x9e37_79b9) >> 16;
        let index = (self.sent ^ order) as u16 & self.mask;
        self.sent = self.sent.wrapping_add(1);
        FIRST | self.first.wrapping_add(index) & PORTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_takes_every_port_once_in_another_order() {
        let mut spray = Spray::new(64, 0xffff).unwrap();
        let mut round = || (0..64).map(|_| spray.next_port()).collect::<Vec<u16>>();
        let (first, second) = (round(), round());
        assert_ne!(first, second);
        for mut ports in [first, second] {
            assert!(ports.iter().all(|port| *port >= 0xc000));
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), 64);
        }
        assert!(Spray::new(0, 1).is_none() && Spray::new(1, 1).is_none());
    }
}

//! Headroom: the bytes that still arrive after XOFF was decided.
//!
//! Two formulas: the IEEE components (802.1Qbb-2011, now 802.1Q Annex N), and the one of SONiC's Mellanox
//! buffer manager (`buffer_headroom_mellanox.lua`). Integers only: bit times and bytes.

use serde::{Deserialize, Serialize};
use wireyard_tables::time::Span;

use super::total;
use crate::units::{BitsPerSec, Bytes, Length, QUANTUM_BITS};

/// The formula of headroom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadroomFormula {
    /// Sum of the IEEE components, worst case of each.
    #[default]
    Ieee,
    /// SONiC on Mellanox: cable at 1.98e8 m/s, cell occupancy, rounded up to KiB.
    Sonic,
}

/// The inputs of the formula about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadroomInput {
    /// Formula.
    pub formula: HeadroomFormula,
    /// Bit rate.
    pub rate: BitsPerSec,
    /// The rate for which bounds, in bit times, are looked up: that of the link which a slower one models.
    pub nominal: BitsPerSec,
    /// Cable length, one way.
    pub cable: Length,
    /// Largest frame of any class, with FCS: ours may be on the wire before the PFC frame.
    pub mtu: Bytes,
    /// Largest frame of the lossless class, with FCS: the peer's may be on the wire when it stops.
    pub lossless_mtu: Bytes,
    /// Preamble and gap of a frame.
    pub preamble_and_gap: Bytes,
    /// Time from the PFC frame's last bit at the peer until the peer stops at a frame boundary;
    /// `None` takes the bound of 802.3 31B.3.7 for the rate.
    pub peer_response: Option<Span>,
    /// If the peer is a process: time until its system schedules it, and ours this process. In addition to the bounds
    /// of the hardware.
    pub process: Option<Span>,
    /// Delay of both interfaces (MAC, PHY), there and back; `None` takes the IEEE bound.
    pub interface_delay: Option<Span>,
    /// Buffer cell; zero for none.
    pub cell: Bytes,
    /// Share of minimum-size packets assumed for cell rounding, in percent.
    pub small_packet_percent: u8,
}

/// A named part of the result, in bytes before cell rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeadroomPart {
    /// Its name.
    pub name: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// The result with its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Headroom {
    /// Bytes needed.
    pub bytes: u64,
    /// The parts of the sum.
    pub parts: Vec<HeadroomPart>,
}

/// Peer response in quanta (802.3 31B.3.7, as SONiC's `pause_quanta_per_speed`), by Mbit/s.
const RESPONSE_QUANTA: [(u64, u64); 10] = [
    (100, 1),
    (1_000, 2),
    (10_000, 67),
    (25_000, 80),
    (40_000, 118),
    (50_000, 147),
    (100_000, 394),
    (200_000, 453),
    (400_000, 905),
    (800_000, 905),
];

/// Interface delay bounds in bit times (IEEE 802.3 sublayer delays), by Mbit/s.
const INTERFACE_BITS: [(u64, u64); 4] =
    [(10_000, 8_192), (25_000, 6_144), (40_000, 24_576), (100_000, 122_880)];

/// Peer response of a rate in quanta; rates between two table rows take the faster row, rates beyond
/// the last take the last.
pub fn response_quanta(rate: BitsPerSec) -> u64 {
    let row = RESPONSE_QUANTA.iter().find(|(mbit, _)| mbit * 1_000_000 >= rate.get());
    row.or(RESPONSE_QUANTA.last()).map_or(0, |(_, quanta)| *quanta)
}

fn interface_bits(rate: BitsPerSec) -> u64 {
    // Below the slowest row the link is emulated and has no PHY.
    let row = INTERFACE_BITS.iter().rev().find(|(mbit, _)| mbit * 1_000_000 <= rate.get());
    row.map_or(0, |(_, bits)| *bits)
}

impl HeadroomInput {
    /// Bytes a lossless priority group needs beyond XOFF on this link.
    pub fn compute(&self) -> Headroom {
        match self.formula {
            HeadroomFormula::Ieee => self.ieee(),
            HeadroomFormula::Sonic => self.sonic(),
        }
    }

    /// The time from XOFF to the last byte of a peer that honours it.
    pub fn loop_time(&self) -> Span {
        self.rate.time_for(Bytes::new(total(self.ieee_parts().iter().map(|part| part.bytes))))
    }

    fn ieee_parts(&self) -> Vec<HeadroomPart> {
        let part = |name, bytes| HeadroomPart { name, bytes };
        let in_bytes = |span: Span| self.rate.bytes_in(span).get();
        let gap = self.preamble_and_gap.get();
        let round_trip = Span::from_ps(self.cable.delay().as_ps().saturating_mul(2));
        let response = match self.peer_response {
            Some(span) => in_bytes(span),
            None => response_quanta(self.nominal) * QUANTUM_BITS / 8,
        };
        let interfaces = match self.interface_delay {
            Some(span) => in_bytes(span),
            None => interface_bits(self.nominal) / 8,
        };
        let mut parts = vec![
            part("our frame before the PFC frame", self.mtu.get().saturating_add(gap)),
            part("PFC frame", gap.saturating_add(64)),
            part("cable, both ways", in_bytes(round_trip)),
            part("interface delays", interfaces),
            part("peer response", response),
            part("the peer's frame", self.lossless_mtu.get().saturating_add(gap)),
        ];
        parts.extend(self.process_part());
        parts
    }

    fn process_part(&self) -> Option<HeadroomPart> {
        let bytes = self.rate.bytes_in(self.process?).get();
        Some(HeadroomPart { name: "a peer that is a process", bytes })
    }

    /// The same with a peer that is hardware.
    pub fn of_hardware(&self) -> HeadroomInput {
        HeadroomInput { process: None, ..*self }
    }

    fn ieee(&self) -> Headroom {
        let parts = self.ieee_parts();
        let wire = total(parts.iter().map(|part| part.bytes));
        let (numerator, denominator) = self.occupancy();
        let bytes = (u128::from(wire) * numerator).div_ceil(denominator);
        Headroom { bytes: u64::try_from(bytes).unwrap_or(u64::MAX), parts }
    }

    /// Buffer bytes per byte of packets, given the part of small ones, as a fraction (S12 `cell_occupancy`).
    fn occupancy(&self) -> (u128, u128) {
        let cell = u128::from(self.cell.get());
        let small = u128::from(self.small_packet_percent.min(100));
        let (worst, by) = match cell {
            0 => return (1, 1),
            129.. => (cell, 64),
            _ => (2 * cell, 1 + cell),
        };
        ((100 - small) * by + small * worst, 100 * by)
    }

    fn sonic(&self) -> Headroom {
        // bytes_on_cable = 2 L rate_Mbps 1e9 / 198e6 / (8 x 1024); mac_phy = 0.8 KiB.
        let peer = response_quanta(self.nominal) * QUANTUM_BITS / 8;
        let peer = self.peer_response.map_or(peer, |span| self.rate.bytes_in(span).get());
        let process = self.process.map_or(0, |span| self.rate.bytes_in(span).get());
        let cable = 2 * u128::from(self.cable.as_mm());
        let cable_numerator = cable.saturating_mul(u128::from(self.rate.get()));
        let cable_denominator = 198 * 8_192 * 1_000_000u128;
        // Common denominator of the cable term and of mac_phy = 4096 / 5 bytes.
        let denominator = 5 * cable_denominator;
        let whole = u128::from(self.mtu.get()) + u128::from(peer) + u128::from(process);
        let propagation = (whole * denominator + 4_096 * cable_denominator)
            .saturating_add(cable_numerator.saturating_mul(5));
        let (occupancy, by) = self.occupancy();
        let lossless = u128::from(self.lossless_mtu.get());
        let total = propagation.saturating_mul(occupancy);
        let total = total.saturating_add(lossless * denominator * by).div_ceil(denominator * by);
        let bytes = u64::try_from(total.next_multiple_of(1_024)).unwrap_or(u64::MAX);
        let part = |name, bytes| HeadroomPart { name, bytes };
        let cable = u64::try_from(cable_numerator.div_ceil(cable_denominator)).unwrap_or(u64::MAX);
        let mut parts = vec![
            part("our frame before the PFC frame", self.mtu.get()),
            part("cable, both ways", cable),
            part("MAC and PHY", 820),
            part("peer response", peer),
            part("the peer's frame", self.lossless_mtu.get()),
        ];
        parts.extend(self.process_part());
        Headroom { bytes, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(formula: HeadroomFormula, gbit: u32, metres: u32) -> HeadroomInput {
        HeadroomInput {
            formula,
            rate: BitsPerSec::gbit(gbit),
            nominal: BitsPerSec::gbit(gbit),
            cable: Length::metres(metres),
            mtu: Bytes::new(9_100),
            lossless_mtu: Bytes::new(1_024),
            preamble_and_gap: Bytes::new(20),
            peer_response: None,
            process: None,
            interface_delay: Some(Span::ZERO),
            cell: Bytes::new(96),
            small_packet_percent: 100,
        }
    }

    /// Values of SONiC's `buffer_headroom_mellanox.lua` (cell 96, MTU 9100, lossless MTU 1024).
    #[test]
    fn sonic_formula_gives_the_known_sizes() {
        let known = [
            (100, 5, 72_704),
            (100, 40, 80_896),
            (100, 300, 144_384),
            (25, 5, 31_744),
            (40, 40, 39_936),
            (400, 300, 429_056),
        ];
        for (gbit, metres, bytes) in known {
            let headroom = input(HeadroomFormula::Sonic, gbit, metres).compute();
            assert_eq!(headroom.bytes, bytes, "{gbit}G {metres} m");
        }
    }

    /// Sum of the components of 802.1Q Annex N, in bit times, for 9216-byte and 4200-byte frames.
    #[test]
    fn ieee_components_add_up() {
        for (gbit, metres, response) in
            [(25u64, 100u64, 40_960u64), (100, 300, 201_728), (400, 5, 463_360)]
        {
            let input = HeadroomInput {
                mtu: Bytes::new(9_216),
                lossless_mtu: Bytes::new(4_200),
                cell: Bytes::ZERO,
                ..input(HeadroomFormula::Ieee, gbit as u32, metres as u32)
            };
            let bits = (9_216 * 8 + 160)
                + (512 + 160)
                + 2 * 5 * metres * gbit
                + response
                + (4_200 * 8 + 160);
            assert_eq!(input.compute().bytes, bits.div_ceil(8), "{gbit}G {metres} m");
        }
    }

    #[test]
    fn cells_and_delays_only_add() {
        let plain = HeadroomInput { cell: Bytes::ZERO, ..input(HeadroomFormula::Ieee, 100, 40) };
        let cells = HeadroomInput { cell: Bytes::new(208), ..plain };
        let slow = HeadroomInput { interface_delay: None, ..plain };
        assert_eq!(cells.compute().bytes, (plain.compute().bytes * 208).div_ceil(64));
        assert_eq!(slow.compute().bytes, plain.compute().bytes + 122_880 / 8);
        let process = HeadroomInput { process: Some(Span::from_ms(5)), ..plain };
        assert_eq!(process.compute().bytes, plain.compute().bytes + 62_500_000);
        assert_eq!(process.of_hardware(), plain);
        assert_eq!(response_quanta(BitsPerSec::gbit(56)), 394);
        assert_eq!(response_quanta(BitsPerSec::gbit(1_600)), 905);
    }
}

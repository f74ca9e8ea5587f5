//! PFC and PAUSE frames on the wire (IEEE 802.1Qbb, IEEE 802.3 Annex 31B), both directions.
//!
//! The traffic manager decides when to send a frame and what a received one does; this module has only their format.

use crate::tm::pfc::{FlowControlFrame, PfcFrame};
use crate::units::Quanta;

use super::layout::{LayoutError, Layouts, Slot};
use super::{MAC_CONTROL_ADDRESS, MAC_CONTROL_TYPE, Mac};

/// Length in bytes of a MAC control frame without FCS: always the minimum frame (802.3 clause 31.4.1).
pub const FRAME_BYTES: usize = 60;
/// Length in bytes of an FCS that a port may deliver with the frame.
const FCS_BYTES: usize = 4;
/// Opcode of PAUSE (802.3 Annex 31B).
const OPCODE_PAUSE: u16 = 0x0001;
/// Opcode of PFC (802.3 Annex 31D).
const OPCODE_PFC: u16 = 0x0101;
/// Priorities in the class-enable vector.
const PRIORITIES: usize = 8;

/// Why a MAC control frame is not flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowControlError {
    /// It does not have the length of a MAC control frame.
    #[error("a MAC control frame of {bytes} bytes: it has {FRAME_BYTES}")]
    Length {
        /// Bytes found.
        bytes: usize,
    },
    /// Not addressed to the MAC control address (01:80:c2:00:00:01).
    #[error("a MAC control frame to {found}, not to {}", Mac(MAC_CONTROL_ADDRESS))]
    WrongMac {
        /// The destination found.
        found: Mac,
    },
    /// The EtherType is not that of MAC control.
    #[error("EtherType {found:#06x} is not MAC control")]
    NotMacControl {
        /// The EtherType found.
        found: u16,
    },
    /// A MAC control opcode that is neither PAUSE nor PFC.
    #[error("MAC control opcode {found:#06x} is neither PAUSE nor PFC")]
    UnknownOpcode {
        /// The opcode found.
        found: u16,
    },
    /// The high octet of the class-enable vector is not zero: there are eight priorities.
    #[error("a PFC class-enable vector with high octet {high:#04x}, not zero")]
    Vector {
        /// The high octet.
        high: u8,
    },
}

impl FlowControlError {
    /// A name for counters.
    pub fn name(&self) -> &'static str {
        match self {
            FlowControlError::Length { .. } => "mac_control_length",
            FlowControlError::WrongMac { .. } => "mac_control_address",
            FlowControlError::NotMacControl { .. } => "not_mac_control",
            FlowControlError::UnknownOpcode { .. } => "mac_control_opcode",
            FlowControlError::Vector { .. } => "pfc_vector",
        }
    }
}

/// Builds and parses flow control frames.
#[derive(Clone, Debug)]
pub struct FlowControlFrames {
    dst: Slot,
    src: Slot,
    ether_type: Slot,
    opcode: Slot,
    pause: Slot,
    reserved: Slot,
    vector: Slot,
    quanta: [Slot; PRIORITIES],
}

impl FlowControlFrames {
    /// Resolves the fields in the layouts.
    ///
    /// # Errors
    /// The libraries lack a field.
    pub fn new(layouts: &Layouts) -> Result<FlowControlFrames, LayoutError> {
        let pfc = layouts.stack(&["ethernet", "mac_control", "pfc"])?;
        let mut quanta = [pfc.element("pfc.quanta", 0)?; PRIORITIES];
        for (priority, slot) in quanta.iter_mut().enumerate() {
            *slot = pfc.element("pfc.quanta", priority as u32)?;
        }
        let pause = layouts.stack(&["ethernet", "mac_control", "pause"])?;
        Ok(FlowControlFrames {
            dst: pfc.slot("ethernet.dst")?,
            src: pfc.slot("ethernet.src")?,
            ether_type: pfc.slot("ethernet.ether_type")?,
            opcode: pfc.slot("mac_control.opcode")?,
            pause: pause.slot("pause.quanta")?,
            reserved: pfc.slot("pfc.reserved")?,
            vector: pfc.slot("pfc.class_enable")?,
            quanta,
        })
    }

    /// Builds the frame, with the source address `from`.
    pub fn build(&self, from: Mac, frame: &FlowControlFrame) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        self.dst.write(&mut out, Mac(MAC_CONTROL_ADDRESS).into());
        self.src.write(&mut out, from.into());
        self.ether_type.write(&mut out, u16::from_be_bytes(MAC_CONTROL_TYPE).into());
        match frame {
            FlowControlFrame::Pause(quanta) => {
                self.opcode.write(&mut out, OPCODE_PAUSE.into());
                self.pause.write(&mut out, quanta.get().into());
            }
            FlowControlFrame::Pfc(pfc) => {
                self.opcode.write(&mut out, OPCODE_PFC.into());
                self.vector.write(&mut out, pfc.vector.into());
                for (slot, quanta) in self.quanta.iter().zip(pfc.quanta) {
                    slot.write(&mut out, quanta.get().into());
                }
            }
        }
        out
    }

    /// Parses a received MAC control frame. Times outside the vector are ignored, and zero in the result.
    ///
    /// # Errors
    /// It is not a flow control frame, or not a valid one.
    pub fn parse(&self, frame: &[u8]) -> Result<FlowControlFrame, FlowControlError> {
        let bytes = frame.len();
        if !(FRAME_BYTES..=FRAME_BYTES + FCS_BYTES).contains(&bytes) {
            return Err(FlowControlError::Length { bytes });
        }
        let ether_type = self.ether_type.read(frame) as u16;
        if ether_type.to_be_bytes() != MAC_CONTROL_TYPE {
            return Err(FlowControlError::NotMacControl { found: ether_type });
        }
        let found = Mac::from(self.dst.read(frame));
        if found.0 != MAC_CONTROL_ADDRESS {
            return Err(FlowControlError::WrongMac { found });
        }
        match self.opcode.read(frame) as u16 {
            OPCODE_PAUSE => Ok(FlowControlFrame::Pause(Quanta::new(self.pause.read(frame) as u16))),
            OPCODE_PFC => self.parse_pfc(frame),
            found => Err(FlowControlError::UnknownOpcode { found }),
        }
    }

    fn parse_pfc(&self, frame: &[u8]) -> Result<FlowControlFrame, FlowControlError> {
        let high = self.reserved.read(frame) as u8;
        if high != 0 {
            return Err(FlowControlError::Vector { high });
        }
        let vector = self.vector.read(frame) as u8;
        let mut quanta = [Quanta::ZERO; PRIORITIES];
        for (priority, (slot, quanta)) in self.quanta.iter().zip(&mut quanta).enumerate() {
            if vector & 1 << priority != 0 {
                *quanta = Quanta::new(slot.read(frame) as u16);
            }
        }
        Ok(FlowControlFrame::Pfc(PfcFrame { vector, quanta }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> FlowControlFrames {
        FlowControlFrames::new(&Layouts::new().unwrap()).unwrap()
    }

    fn any_frame() -> impl Strategy<Value = FlowControlFrame> {
        prop_oneof![
            any::<u16>().prop_map(|quanta| FlowControlFrame::Pause(Quanta::new(quanta))),
            any::<(u8, [u16; 8])>().prop_map(|(vector, times)| {
                let time = |p: usize| if vector & 1 << p != 0 { times[p] } else { 0 };
                let quanta = std::array::from_fn(|p| Quanta::new(time(p)));
                FlowControlFrame::Pfc(PfcFrame { vector, quanta })
            }),
        ]
    }

    #[test]
    fn what_is_built_is_read() {
        let frames = frames();
        proptest!(|(said in any_frame(), mac in any::<[u8; 6]>(), fcs in any::<bool>())| {
            let mut bytes = frames.build(Mac(mac), &said).to_vec();
            prop_assert!(crate::frames::is_mac_control(&bytes));
            bytes.extend_from_slice(if fcs { &[1, 2, 3, 4] } else { &[] });
            prop_assert_eq!(frames.parse(&bytes), Ok(said));
        });
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let frames = frames();
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..80))| {
            let _ = frames.parse(&bytes);
        });
    }

    #[test]
    fn wrong_frames_are_refused_by_name() {
        let frames = frames();
        let pfc = PfcFrame { vector: 8, quanta: [Quanta::MAX; 8] };
        let good = frames.build(Mac([2, 0, 0, 0, 0, 1]), &FlowControlFrame::Pfc(pfc));
        let name = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.to_vec();
            change(&mut bytes);
            frames.parse(&bytes).unwrap_err().name()
        };
        assert_eq!(name(&|b| b.truncate(59)), "mac_control_length");
        assert_eq!(name(&|b| b.resize(65, 0)), "mac_control_length");
        assert_eq!(name(&|b| b[5] = 2), "mac_control_address");
        assert_eq!(name(&|b| b[13] = 0), "not_mac_control");
        assert_eq!(name(&|b| b[15] = 2), "mac_control_opcode");
        assert_eq!(name(&|b| b[16] = 1), "pfc_vector");
    }
}

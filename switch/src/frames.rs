//! Frames that belong to the device itself and not to the program.

/// The MAC control multicast address (IEEE 802.3 annex 31B.1): never forwarded by a bridge.
const MAC_CONTROL_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// EtherType of MAC control (IEEE 802.3 clause 31.4.1.3).
const MAC_CONTROL_TYPE: [u8; 2] = [0x88, 0x08];

/// True for a MAC control frame (PAUSE, PFC): it ends at the port that received it.
pub fn is_mac_control(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&MAC_CONTROL_TYPE) && frame.get(..6) == Some(&MAC_CONTROL_ADDRESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_control_is_address_and_type() {
        let mut frame = [0u8; 60];
        frame[..6].copy_from_slice(&MAC_CONTROL_ADDRESS);
        frame[12..14].copy_from_slice(&MAC_CONTROL_TYPE);
        assert!(is_mac_control(&frame));
        frame[13] = 0;
        assert!(!is_mac_control(&frame));
        assert!(!is_mac_control(&[1, 2, 3]));
    }
}

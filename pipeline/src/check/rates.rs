//! Rates and sizes with their units, in the form of the meters: whole tokens, nothing rounded.

/// Units of a rate in bytes: text, bits of one.
const BIT_RATES: [(&str, u128); 12] = [
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("B/s", 8),
    ("KB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
];
/// Units of a rate in packets.
const PACKET_RATES: [(&str, u128); 3] = [("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000)];
/// Units of a size in bytes; KB is 1000, KiB is 1024.
const SIZES: [(&str, u128); 5] =
    [("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("KiB", 1_024), ("MiB", 1_048_576)];
/// Units of a size in packets; a bare number is packets too.
const PACKETS: [(&str, u128); 3] = [("", 1), ("packets", 1), ("packet", 1)];

/// A rate in bytes or packets a second; the error is a message.
pub(crate) fn rate(text: &str, packets: bool) -> Result<u64, String> {
    if packets {
        return number(text, &PACKET_RATES, "a rate in packets, as `1000pps`");
    }
    let bits = scaled(text, &BIT_RATES, "a rate in bytes, as `1Gbit/s` or `10MB/s`")?;
    if !bits.is_multiple_of(8) {
        return Err(format!("`{text}` is not whole bytes a second"));
    }
    u64::try_from(bits / 8).map_err(|_| format!("`{text}` is too much"))
}

/// A size in bytes or packets.
pub(crate) fn size(text: &str, packets: bool) -> Result<u64, String> {
    if packets {
        return number(text, &PACKETS, "a number of packets, as `64packets`");
    }
    number(text, &SIZES, "a size in bytes, as `16KB` (1000 B) or `16KiB` (1024 B)")
}

fn number(text: &str, units: &[(&str, u128)], wanted: &str) -> Result<u64, String> {
    u64::try_from(scaled(text, units, wanted)?).map_err(|_| format!("`{text}` is too much"))
}

/// The leading number times its unit.
fn scaled(text: &str, units: &[(&str, u128)], wanted: &str) -> Result<u128, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let digits = digits.replace('_', "");
    let value: Option<u128> = digits.parse::<u64>().ok().map(u128::from);
    if value.is_none() && !digits.is_empty() {
        return Err(format!("`{text}` is too much"));
    }
    let scale = units.iter().find(|(name, _)| *name == unit.trim()).map(|(_, scale)| *scale);
    match (value, scale) {
        (Some(value), Some(scale)) => Ok(value * scale),
        _ => {
            let names: Vec<&str> =
                units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
            Err(format!("`{text}` is not {wanted}; units: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_exact_and_needed() {
        assert_eq!(rate("1Gbit/s", false), Ok(125_000_000));
        assert_eq!(rate("8 kbit/s", false), Ok(1_000));
        assert_eq!(rate("10 Mbps", false), Ok(1_250_000));
        assert_eq!(rate("1_000pps", true), Ok(1_000));
        let large = rate("99999999999999999999 Gbit/s", false);
        assert!(large.is_err_and(|why| why.contains("too much")));
        assert_eq!(size("16KB", false), Ok(16_000));
        assert_eq!(size("16KiB", false), Ok(16_384));
        assert_eq!(size("7", true), Ok(7));
        for wrong in ["1000", "1bit/s", "Gbit/s", "", "1Tbit/s", "99999999999999999999B/s"] {
            assert!(rate(wrong, false).is_err(), "{wrong}");
        }
        assert!(size("16", false).is_err());
    }
}

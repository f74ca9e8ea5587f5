//! Ones'-complement sums; the checksums of IP, TCP, UDP and GRE are their complement.

/// RFC 1071: the ones'-complement sum of big-endian 16-bit words, an odd byte padded with zero.
#[inline]
pub(super) fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum();
    let mut tail = [0; 4];
    for (to, from) in tail.iter_mut().zip(rest) {
        *to = *from;
    }
    sum += u64::from(u32::from_be_bytes(tail));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The ones'-complement sum of sums.
#[inline]
pub(super) fn sum_of(sums: &[u16]) -> u16 {
    let mut sum: u32 = sums.iter().map(|sum| u32::from(*sum)).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

//! Hash functions of the language, over a stream of operand bytes.

use crate::externs::checksum::Sum;
use crate::externs::crc::iso_hdlc;
use crate::ir::HashAlgorithm;
use crc::{CRC_16_ARC, Crc, Digest, Table};

static CRC16: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_ARC);

/// The key of Microsoft's RSS verification suite ("Verifying the RSS hash calculation").
pub const TOEPLITZ_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A hash in progress.
#[derive(Clone)]
pub enum Hasher {
    /// [`HashAlgorithm::Crc16`].
    Crc16(Digest<'static, u16, Table<1>>),
    /// [`HashAlgorithm::Crc32`]: the CRC so far.
    Crc32(u32),
    /// [`HashAlgorithm::Csum16`].
    Csum16(Sum),
    /// [`HashAlgorithm::Toeplitz`]: result so far, and number of bytes.
    Toeplitz(u32, usize),
    /// [`HashAlgorithm::Identity`]: the last 64 bits.
    Identity(u64),
    /// [`HashAlgorithm::Xor16`]: result so far, and whether the next byte is a low half.
    Xor16(u16, bool),
}

impl Hasher {
    /// Nothing hashed yet.
    pub fn new(algorithm: HashAlgorithm) -> Hasher {
        match algorithm {
            HashAlgorithm::Crc16 => Hasher::Crc16(CRC16.digest()),
            HashAlgorithm::Crc32 => Hasher::Crc32(0),
            HashAlgorithm::Csum16 => Hasher::Csum16(Sum::default()),
            HashAlgorithm::Toeplitz => Hasher::Toeplitz(0, 0),
            HashAlgorithm::Identity => Hasher::Identity(0),
            HashAlgorithm::Xor16 => Hasher::Xor16(0, false),
        }
    }

    /// Hashes more bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Crc16(digest) => digest.update(bytes),
            Hasher::Crc32(crc) => *crc = iso_hdlc(*crc, bytes),
            Hasher::Csum16(sum) => sum.add(bytes),
            Hasher::Toeplitz(hash, done) => {
                for &byte in bytes {
                    *hash ^= toeplitz_byte(byte, *done);
                    *done += 1;
                }
            }
            Hasher::Identity(value) => {
                for &byte in bytes {
                    *value = *value << 8 | u64::from(byte);
                }
            }
            Hasher::Xor16(value, odd) => {
                for &byte in bytes {
                    *value ^= u16::from(byte) << if *odd { 0 } else { 8 };
                    *odd = !*odd;
                }
            }
        }
    }

    /// Hashes a value of `bits` bits in whole bytes, network order.
    pub fn add_value(&mut self, value: u128, bits: u32) {
        let bytes = value.to_be_bytes();
        let used = bits.div_ceil(8).min(16) as usize;
        self.add(&bytes[16 - used..]);
    }

    /// The same for a value that fits a word.
    pub fn add_word(&mut self, value: u64, bits: u32) {
        let bytes = value.to_be_bytes();
        let used = bits.div_ceil(8).min(8) as usize;
        self.add(&bytes[8 - used..]);
    }

    /// The hash.
    pub fn finish(self) -> u64 {
        match self {
            Hasher::Crc16(digest) => digest.finalize().into(),
            Hasher::Crc32(crc) => crc.into(),
            Hasher::Csum16(sum) => sum.checksum().into(),
            Hasher::Toeplitz(hash, _) => hash.into(),
            Hasher::Identity(value) => value,
            Hasher::Xor16(value, _) => value.into(),
        }
    }
}

/// The contribution of the byte at position `at` of the input: for each of its ones the 32 key bits from there.
fn toeplitz_byte(byte: u8, at: usize) -> u32 {
    let key = |i: usize| u64::from(TOEPLITZ_KEY[(at + i) % TOEPLITZ_KEY.len()]);
    let window = key(0) << 32 | key(1) << 24 | key(2) << 16 | key(3) << 8 | key(4);
    (0..8)
        .filter(|bit| byte & (0x80 >> bit) != 0)
        .fold(0, |hash, bit| hash ^ (window >> (8 - bit)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(algorithm: HashAlgorithm, bytes: &[u8]) -> u64 {
        let mut hasher = Hasher::new(algorithm);
        hasher.add(bytes);
        hasher.finish()
    }

    /// Check values of the CRC catalogue (Greg Cook).
    #[test]
    fn crc_check_values() {
        assert_eq!(hash(HashAlgorithm::Crc16, b"123456789"), 0xbb3d);
        assert_eq!(hash(HashAlgorithm::Crc32, b"123456789"), 0xcbf4_3926);
    }

    /// Microsoft, "Verifying the RSS hash calculation": the IPv4 rows, with and without ports.
    #[test]
    fn toeplitz_vectors() {
        let rows: [([u8; 12], u64, u64); 3] = [
            (
                [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6],
                0x323e_8fc2,
                0x51cc_c178,
            ),
            ([199, 92, 111, 2, 65, 69, 140, 83, 0x37, 0x96, 0x12, 0x83], 0xd718_262a, 0xc626_b0ea),
            ([24, 19, 198, 95, 12, 22, 207, 184, 0x32, 0x62, 0x94, 0x88], 0xd2d0_a5de, 0x5c2b_394a),
        ];
        for (input, addresses, with_ports) in rows {
            assert_eq!(hash(HashAlgorithm::Toeplitz, &input[..8]), addresses);
            assert_eq!(hash(HashAlgorithm::Toeplitz, &input), with_ports);
        }
    }

    #[test]
    fn the_key_of_toeplitz_repeats() {
        let mut input = [0u8; 41];
        input[40] = 0x80;
        assert_eq!(hash(HashAlgorithm::Toeplitz, &input), 0x6d5a_56da);
    }

    #[test]
    fn small_ones() {
        assert_eq!(hash(HashAlgorithm::Csum16, &[0x45, 0x00, 0x00, 0x3c]), 0xbac3);
        assert_eq!(hash(HashAlgorithm::Xor16, &[0x12, 0x34, 0xff, 0x00, 0x01]), 0xec34);
        assert_eq!(
            hash(HashAlgorithm::Identity, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
            0x0203_0405_0607_0809
        );
        let mut value = Hasher::new(HashAlgorithm::Identity);
        value.add_value(0x123, 12);
        assert_eq!(value.finish(), 0x0123);
    }
}

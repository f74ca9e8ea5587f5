use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn header(big_endian: bool, nanoseconds: bool) -> PcapHeader {
    PcapHeader { big_endian, nanoseconds, link_field: 0x3000_0001, ..PcapHeader::new(1) }
}

fn record(data: &[u8], wire_len: u32, nanos: u64) -> RecordToWrite<'_> {
    let time = Timestamp { seconds: 1_700_000_000, nanos };
    RecordToWrite { time, data, wire_len, interface: 0, comment: None }
}

fn pcap_file(header: PcapHeader, records: &[RecordToWrite<'_>]) -> Vec<u8> {
    let mut writer = PcapWriter::pcap(Vec::new(), header).unwrap();
    records.iter().for_each(|r| writer.write(r).unwrap());
    writer.into_inner().unwrap()
}

#[test]
fn pcap_bytes_are_as_the_format_says() {
    let file = pcap_file(header(true, false), &[record(b"\x01\x02", 60, 5_000)]);
    let expected = b"\xa1\xb2\xc3\xd4\0\x02\0\x04\0\0\0\0\0\0\0\0\0\x04\0\0\x30\0\0\x01\
        \x65\x53\xf1\x00\0\0\0\x05\0\0\0\x02\0\0\0\x3c\x01\x02";
    assert_eq!(file, expected);
}

#[test]
fn every_variant_reads_back() {
    for (big_endian, nanoseconds) in [(false, false), (false, true), (true, false), (true, true)] {
        let head = header(big_endian, nanoseconds);
        let written = [record(b"abc", 1500, 7_000), record(b"", 0, 999_999_000)];
        let file = pcap_file(head, &written);
        let mut reader = PcapReader::new(file.as_slice()).unwrap();
        assert_eq!(reader.pcap_header(), Some(&head));
        for (i, expected) in written.iter().enumerate() {
            let got = reader.next_record().unwrap().unwrap();
            assert_eq!(
                (got.time, got.data, got.wire_len),
                (expected.time, expected.data, expected.wire_len)
            );
            assert_eq!((got.link, got.offset), (1, if i == 0 { 24 } else { 43 }));
        }
        assert!(reader.next_record().unwrap().is_none());
    }
}

#[test]
fn pcapng_keeps_nanoseconds_interfaces_and_comments() {
    let mut writer = PcapWriter::pcapng(Vec::new()).unwrap();
    for (link, name) in [(1, "veth0"), (247, "ib0")] {
        writer.add_interface(&Interface { link, name: name.to_owned() }).unwrap();
    }
    let with_comment = RecordToWrite {
        interface: 1,
        comment: Some("port 2, queue depth 12"),
        ..record(b"12345", 9000, 123_456_789)
    };
    writer.write(&with_comment).unwrap();
    writer.write(&record(b"1234", 4, 1)).unwrap();
    let file = writer.into_inner().unwrap();
    let mut reader = PcapReader::new(file.as_slice()).unwrap();
    let first = reader.next_record().unwrap().unwrap();
    assert_eq!(
        (first.data, first.wire_len, first.link, first.interface),
        (&b"12345"[..], 9000, 247, 1)
    );
    assert_eq!((first.time.nanos, first.comment), (123_456_789, Some("port 2, queue depth 12")));
    let second = reader.next_record().unwrap().unwrap();
    assert_eq!((second.data, second.link, second.comment), (&b"1234"[..], 1, None));
    assert!(reader.next_record().unwrap().is_none());
}

#[test]
fn a_truncated_file_tells_where_and_what_was_read() {
    let file = pcap_file(header(false, true), &[record(b"abc", 3, 0), record(b"defgh", 5, 0)]);
    for cut in 44..file.len() {
        let mut reader = PcapReader::new(&file[..cut]).unwrap();
        assert_eq!(reader.next_record().unwrap().unwrap().data, b"abc");
        let error = reader.next_record().unwrap_err();
        assert!(matches!(error, PcapError::Truncated { offset: 43, records: 1, .. }), "{error}");
        assert!(error.to_string().contains("offset 43"), "{error}");
        assert!(reader.next_record().is_err(), "an error stays an error");
    }
}

#[test]
fn damaged_lengths_are_refused_without_allocating_them() {
    let mut file = pcap_file(header(false, true), &[record(b"abc", 3, 0)]);
    file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = PcapReader::new(file.as_slice()).unwrap().next_record().unwrap_err();
    assert!(matches!(error, PcapError::TooLong { offset: 24, bytes: 0xffff_ffff, records: 0 }));
    let mut writer = PcapWriter::pcap(Vec::new(), header(false, true)).unwrap();
    assert!(writer.write(&record(&vec![0; MAX_RECORD_BYTES as usize + 1], 0, 0)).is_err());
}

/// A simple packet block has no time: that of the record before it stands for it.
#[test]
fn a_simple_packet_comes_at_the_time_of_the_one_before() {
    let mut writer = PcapWriter::pcapng(Vec::new()).unwrap();
    writer.add_interface(&Interface { link: 1, name: "a".to_owned() }).unwrap();
    writer.write(&record(b"1234", 4, 7)).unwrap();
    let mut file = writer.into_inner().unwrap();
    for word in [3_u32, 20, 4, 0x6463_6261, 20] {
        file.extend(word.to_le_bytes());
    }
    let mut reader = PcapReader::new(file.as_slice()).unwrap();
    let first = reader.next_record().unwrap().unwrap().time;
    let second = reader.next_record().unwrap().unwrap();
    assert_eq!((second.data, second.time), (&b"abcd"[..], first));
}

#[test]
fn files_that_are_no_captures_are_named() {
    let message = |bytes: &[u8]| PcapReader::new(bytes).unwrap_err().to_string();
    assert!(message(b"\x1f\x8b\x08\x00").contains("gunzip"));
    assert!(message(b"").contains("empty"));
    assert!(message(b"PK\x03\x04").contains("not a pcap or pcapng file"));
    assert!(message(b"\xa1\xb2\xc3\xd4\0").contains("needs 24 bytes"));
    assert!(message(b"\xa1\xb2\xcd\x34").contains("editcap"));
}

#[test]
fn link_types_have_names() {
    assert_eq!(link_type_name(1), Some("ETHERNET"));
    assert_eq!(link_type_name(150), link_type_name(147));
    assert_eq!(link_type_name(9999), None);
}

/// One record of 9 bytes, of which none were captured, behind an interface with this resolution and offset.
fn timed(resolution: u8, offset_seconds: i64, ticks: u64) -> Vec<u8> {
    let mut file = b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0".to_vec();
    file.extend(b"\x01\0\0\0\x2c\0\0\0\x01\0\0\0\0\0\0\0\x09\0\x01\0");
    file.extend([resolution, 0, 0, 0, 14, 0, 8, 0]);
    file.extend(offset_seconds.to_le_bytes());
    file.extend(b"\0\0\0\0\x2c\0\0\0\x06\0\0\0\x20\0\0\0\0\0\0\0");
    file.extend(((ticks >> 32) as u32).to_le_bytes());
    file.extend((ticks as u32).to_le_bytes());
    file.extend(b"\0\0\0\0\x09\0\0\0\x20\0\0\0");
    file
}

#[test]
fn time_resolutions_of_pcapng_are_followed() {
    for (resolution, offset, ticks, seconds, nanos) in [
        (6, 0, 1_500_000, 1, 500_000_000),
        // 2^-10 s
        (0x8a, 100, 1536, 101, 500_000_000),
        (6, -1, 1_500_000, 0, 500_000_000),
        // Finer than 64 bits of ticks in a second, and finer than 128.
        (20, 0, 10_u64.pow(19), 0, 100_000_000),
        (0x80 | 64, 0, 1 << 63, 0, 500_000_000),
        (0x7f, 5, u64::MAX, 5, 0),
        (0xff, 5, u64::MAX, 5, 0),
    ] {
        let file = timed(resolution, offset, ticks);
        let mut reader = PcapReader::new(file.as_slice()).unwrap();
        let got = reader.next_record().unwrap().unwrap();
        assert_eq!(got.time, Timestamp { seconds, nanos }, "{resolution} {offset} {ticks}");
        assert_eq!((got.data.len(), got.wire_len), (0, 9));
    }
}

#[test]
fn a_time_that_there_is_no_number_for_is_refused() {
    for (offset, ticks) in [(-2, 1_999_999), (i64::MIN, u64::MAX)] {
        let file = timed(6, offset, ticks);
        let error = PcapReader::new(file.as_slice()).unwrap().next_record().unwrap_err();
        assert!(error.to_string().contains("offset 72") && error.to_string().contains("1970"));
    }
}

/// A block that is not read may have any length; it is not kept.
#[test]
fn a_long_block_of_another_type_is_skipped() {
    const LONG: u32 = 17 << 20;
    let of_type = |kind: u32| {
        let mut file = timed(6, 0, 7);
        let record = file.split_off(72);
        file.extend([kind, LONG].into_iter().flat_map(u32::to_le_bytes));
        file.resize(72 + LONG as usize - 4, 0xee);
        file.extend(LONG.to_le_bytes());
        file.extend(record);
        file
    };
    let mut file = of_type(0x0bad);
    let mut reader = PcapReader::new(file.as_slice()).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().wire_len, 9);
    assert!(reader.next_record().unwrap().is_none());
    for (kind, why) in [(6, "not longer than 16 MiB"), (0x0bad, "lengths differ")] {
        let mut file = of_type(kind);
        file[72 + LONG as usize - 4] ^= 4;
        let error = PcapReader::new(file.as_slice()).unwrap().next_record().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    file.truncate(72 + LONG as usize - 9);
    let mut reader = PcapReader::new(file.as_slice()).unwrap();
    for _ in 0..2 {
        let error = reader.next_record().unwrap_err();
        assert!(matches!(error, PcapError::Truncated { .. }), "{error}");
    }
}

type Owned = (Timestamp, Vec<u8>, u32, u16);

fn read_all(bytes: &[u8]) -> (Vec<Owned>, Option<PcapError>) {
    let mut records = Vec::new();
    let mut reader = match PcapReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (records, Some(error)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(r)) => records.push((r.time, r.data.to_vec(), r.wire_len, r.link)),
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

proptest! {
    #[test]
    fn damaged_files_give_errors_and_no_panic(
        flips in prop::collection::vec((0usize..400, any::<u8>()), 0..6), cut in 0usize..400, ng: bool,
    ) {
        let mut file = if ng {
            let mut writer = PcapWriter::pcapng(Vec::new()).unwrap();
            writer.add_interface(&Interface { link: 1, name: "a".into() }).unwrap();
            writer.write(&record(&[7; 61], 61, 5)).unwrap();
            writer.write(&RecordToWrite { comment: Some("x"), ..record(&[8; 40], 40, 6) }).unwrap();
            writer.into_inner().unwrap()
        } else {
            pcap_file(header(false, true), &[record(&[7; 61], 61, 5), record(&[8; 100], 100, 6)])
        };
        for (at, value) in flips {
            if let Some(byte) = file.get_mut(at) {
                *byte = value;
            }
        }
        file.truncate(cut.max(1));
        let (records, _) = read_all(&file);
        prop_assert!(records.iter().map(|r| r.1.len()).sum::<usize>() <= file.len());
    }
}

fn captures() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "pcap" || e == "pcapng" || e == "cap") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for up in ["../shared/captures", "../../shared/captures"] {
        walk(&root.join(up), &mut found);
    }
    found.sort();
    found
}

/// For every stored capture, rewritten records equal the records read, and a pcap file written with its own header is
/// the same, byte for byte.
#[test]
fn stored_captures_survive_a_round_trip() {
    let files = captures();
    if files.is_empty() {
        return crate::skip::skip("stored_captures_survive_a_round_trip", "no ../shared/captures");
    }
    let mut total = 0;
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let Ok(mut reader) = PcapReader::new(bytes.as_slice()) else { continue };
        let copied = reader.pcap_header().copied();
        let mut writer = match copied {
            Some(header) => PcapWriter::pcap(Vec::new(), header).unwrap(),
            None => PcapWriter::pcapng(Vec::new()).unwrap(),
        };
        let mut described = 0;
        while let Ok(Some(r)) = reader.next_record() {
            while described <= r.interface && copied.is_none() {
                writer.add_interface(&Interface { link: r.link, name: String::new() }).unwrap();
                described += 1;
            }
            let Record { time, data, wire_len, interface, comment, .. } = r;
            writer.write(&RecordToWrite { time, data, wire_len, interface, comment }).unwrap();
        }
        let out = writer.into_inner().unwrap();
        let (before, error) = read_all(&bytes);
        assert_eq!(before, read_all(&out).0, "{}", path.display());
        total += before.len();
        if copied.is_some() {
            assert_eq!(out, bytes[..out.len()], "{}", path.display());
            assert!(error.is_some() || out.len() == bytes.len(), "{}", path.display());
        }
    }
    assert!(total > 1000, "only {total} records found");
    eprintln!("{total} records");
}
